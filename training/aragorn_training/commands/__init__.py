"""Name the functions of the commands of `aragorn-training`, of which only the selected is imported.

A function has one parameter, `options`, whose type declares the options of the command; the first
paragraph of its docstring describes the command. That of a study is in the docstring of its module.
"""

import ast
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

from aragorn.registry import list_module_names

PACKAGE_DIR = Path(__file__).resolve().parent.parent
STUDIES = list_module_names([str(PACKAGE_DIR / "studies")])
# description and placeholder of the names of commands that start with the same word
GROUPS = {
    "prepare": ("build training data in a working directory", "KIND"),
    "study": ("reproduce published experiments", "NAME"),
}
COMMANDS = {  # command → module and function
    "all": "commands.all:make_all",
    "prepare pairs": "data.pairs:prepare_pairs",
    "prepare passages": "data.term_weighting:prepare_passages",
    "prepare quality": "data.quality:prepare_quality",
    "prepare tags": "data.tagged_documents:prepare_tags",
    "prepare distillation": "data.distillation:prepare_distillation",
    "prepare labels": "data.labelled_pairs:prepare_labels",
    "prepare vectors": "data.word_vectors:prepare_vectors",
    "prepare encoder": "data.onnx_encoders:prepare_encoder",
    "fit": "commands.fit:fit_recipe",
    "tune": "commands.fit:tune",
    "fuse": "commands.fit:fuse",
    "evaluate": "commands.evaluate:evaluate",
    "compare": "commands.evaluate:compare",
    "overlap": "commands.evaluate:overlap",
    "report": "commands.evaluate:report",
    "docs": "commands.evaluate:docs",
    **{f"study {name.replace('_', '-')}": f"studies.{name}:run" for name in STUDIES},
}


def describe_command(target: str) -> str:
    """Read the description of a command, without importing its module."""
    module_name, _, function = target.partition(":")
    path = PACKAGE_DIR.joinpath(*module_name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    is_study = module_name.startswith("studies.")
    text = ast.get_docstring(tree if is_study else functions[function]) or ""
    sentence = " ".join(text.split(".\n")[0].split()).rstrip(".")
    return sentence[:1].lower() + sentence[1:]


def load_command(target: str) -> tuple[Callable[[Any], None], type[Any]]:
    """Import the function of a command; return it with the type of its options."""
    module_name, _, function = target.partition(":")
    module = import_module(f"aragorn_training.{module_name}")
    run: Callable[[Any], None] = getattr(module, function)
    options_type = get_type_hints(run)["options"]
    if module_name.startswith("studies."):
        study = import_module("aragorn_training.commands.study")
        run = partial(study.run_study, module)
    return run, options_type
