"""Build the graph of all steps from a corpus to the checkpoints of all systems."""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from submission.models.bert import BERTNetwork
from submission.storage.atomic_files import sha256_file
from submission.storage.code_fingerprint import code_fingerprint
from submission.systems.catalogue import FUSION_CANDIDATES, SYSTEMS
from submission.systems.ensemble import EnsembleStage
from submission.systems.execution import Component, iter_components
from submission.systems.learned_fusion import LearnedFusionStage
from submission.systems.quality_reranking import QualityRerankingStage
from training.data.datasets import webis_argquality
from training.data.word_vectors import get_default_folder_name
from training.data.work_directory import hash_json
from training.fitting.recipe import Recipe
from training.fusion.recipe import read_recipe
from training.paths import FUSIONS, GRIDS, RECIPES
from training.tasks import load_recipe
from training.tuning.grid import load_grid

CODE = {  # modules that decide the output, by the command's first words; `fit` adds those of its network and task
    "prepare pairs": "training.data.pairs",
    "prepare passages": "training.data.term_weighting",
    "prepare quality": "training.data.quality",
    "prepare tags": "training.data.tagged_documents",
    "prepare vectors": "training.data.word_vectors",
    "fit": "training.fitting.training_loop",
    "tune": "training.tuning.grid",
    "tune tfr_bert": "training.tuning.quality",
    "fuse": "training.fusion.learned",
    "fuse ensemble": "training.fusion.ensemble",
}


@dataclass(frozen=True)
class Sources:
    """Inputs of the graph; None: not given."""

    input_dir: Path  # topics and args.me corpus
    work_dir: Path
    data_dir: Path | None = None  # published data sets, in any subdirectories
    qrels: Path | None = None
    recipes_dir: Path | None = None  # recipes, grids and fusions that replace those of training/configs

    def find_published(self, names: Sequence[str]) -> Path | None:
        """Return the first directory below `data_dir` that contains one of the names, or None."""
        paths = [path for name in names for path in sorted(self.data_dir.rglob(name))] if self.data_dir else []
        return paths[0].parent if paths else None

    def find_missing(self, names: Sequence[str]) -> list[str]:
        """Return the published files and folders that are not below `data_dir`, or --data if it is not given."""
        if names and not self.data_dir:
            return ["--data"]
        folder = self.find_published(names)
        return [name for name in names if not (folder and (folder / name).exists())]

    def find_config(self, name: str, default_dir: Path) -> Path:
        """Return the path of a recipe, grid or fusion."""
        replacement = self.recipes_dir / f"{name}.toml" if self.recipes_dir else None
        return replacement if replacement and replacement.is_file() else default_dir / f"{name}.toml"


@dataclass(frozen=True)
class Step:
    """A command of `python -m training` that writes training data or a checkpoint."""

    name: str  # name of the checkpoint, or `prepare KIND`
    command: tuple[str, ...]
    output: Path  # file or directory that exists when the step is finished
    requires: tuple[str, ...] = ()  # names of steps
    inputs: tuple[Path, ...] = ()  # files and directories outside the working directory
    modules: tuple[str, ...] = ()  # modules that decide the output, besides those in CODE
    missing: tuple[str, ...] = ()  # inputs that are not given
    uses_device: bool = False
    restart_flag: str = ""  # discards results of other inputs, settings or code

    def compute_key(self, requirement_keys: Sequence[str]) -> str:
        """Hash everything that decides the output: command, input files, code and the keys of the required steps."""
        verb = " ".join(self.command[:2])
        code = code_fingerprint(CODE.get(verb) or CODE[self.command[0]], *self.modules)
        return hash_json([self.command, [_hash_path(path) for path in self.inputs], code, *requirement_keys])


@cache
def _hash_path(path: Path) -> object:
    """Hash a file or all files below a directory; of a TOML file only the values, so that comments can be edited."""
    if path.suffix == ".toml":
        return hash_json(tomllib.loads(path.read_text(encoding="utf-8")))
    return [
        [file.name, sha256_file(file)] for file in ([path] if path.is_file() else sorted(path.rglob("*"))) if file.is_file()
    ]


def build_graph(sources: Sources) -> dict[str, Step]:
    """Build all steps by name, in an order in which each follows its requirements.

    A step whose input is not given, or that requires such a step, is `missing` it.
    """
    names = _list_checkpoints(system.stage for system in SYSTEMS.values())
    graph = _GraphBuilder(sources)
    for name in names:
        if (RECIPES / f"{name}.toml").is_file():
            graph.add_network(name)
    lexical_names = [name for name in names if (GRIDS / f"{name}.toml").is_file()]
    for name in sorted(lexical_names, key=lambda name: len(load_grid(str(sources.find_config(name, GRIDS))).points)):
        graph.add_grid(name)
    combinations = [SYSTEMS[name] for name in SYSTEMS if isinstance(SYSTEMS[name].stage, QualityRerankingStage | EnsembleStage)]
    for system in combinations:
        graph.add_combination(system.name, system.stage)
    for system in SYSTEMS.values():
        if isinstance(system.stage, LearnedFusionStage):
            graph.add_fusion(system.name)
    return graph.steps


class _GraphBuilder:
    """Builder that adds each step after the steps that it requires."""

    def __init__(self, sources: Sources) -> None:
        self.steps: dict[str, Step] = {}
        self._sources, self._first_grids = sources, dict[str, str]()
        self._work_dir, self._checkpoints = sources.work_dir, sources.work_dir / "checkpoints"
        corpus = "-i", str(sources.input_dir)
        self._add_data("pairs", corpus, "manifest.json", inputs=(sources.input_dir,))
        judged = ("--exclude-qrels", str(sources.qrels)) if sources.qrels else ()
        inputs = (sources.input_dir, *([sources.qrels] if sources.qrels else []))
        self._add_data("passages", (*corpus, *judged), "passages", inputs)

    def add_network(self, name: str) -> None:
        """Add the training of a network, after that of its initial checkpoint and the preparation of its data."""
        if name in self.steps:
            return
        path = self._sources.find_config(name, RECIPES)
        recipe = load_recipe(str(path))
        requires = [self._add_task_data(recipe)]
        if not issubclass(recipe.network_class, BERTNetwork):
            requires.append(self._add_vectors(recipe))
        if recipe.initial_checkpoint:
            self.add_network(recipe.initial_checkpoint)
            requires.append(recipe.initial_checkpoint)
        missing = self._sources.find_missing(recipe.task.published_files)
        missing += ["--qrels"] if recipe.task.needs_qrels and not self._sources.qrels else []
        self._add_checkpoint(
            name, ("fit", str(path)), requires, [path], missing, uses_device=True, restart_flag="--restart",
            modules=(recipe.network_class.__module__, type(recipe.task).__module__),
        )  # fmt: skip

    def add_grid(self, name: str) -> None:
        """Add the tuning of a lexical system; the first grid of an enricher caches the enriched documents for the next."""
        path = self._sources.find_config(name, GRIDS)
        enricher = load_grid(str(path)).points[0].enrichment
        requires = [enricher, self._first_grids.setdefault(enricher, name)] if enricher else []
        requires = [step for step in requires if step != name]
        self._add_checkpoint(name, ("tune", str(path), *self._judged), requires, [path], uses_device=bool(enricher))

    def add_combination(self, name: str, stage: Component) -> None:
        """Add the step of an ensemble or of a re-ranking by quality, whose components are checkpoints."""
        checkpoint = stage.checkpoint or name
        requires = [step for step in _list_checkpoints([stage]) if step != checkpoint]
        command: tuple[str, ...]
        if isinstance(stage, EnsembleStage):
            command, missing = ("fuse", name), []
        else:
            command, requires = (
                ("tune", name, *self._judged),
                [self._add_published("quality", [webis_argquality.FOLDER]), *requires],
            )
            missing = self._sources.find_missing([webis_argquality.FOLDER])
        self._add_checkpoint(checkpoint, command, requires, [], missing, uses_device=True)

    def add_fusion(self, name: str) -> None:
        """Add a learned fusion, after its members, its baselines and the candidate members that can be made."""
        path = self._sources.find_config(name, FUSIONS)
        recipe = read_recipe(str(path))
        stages = [FUSION_CANDIDATES[member] for member in recipe.members] + [SYSTEMS[name].stage for name in recipe.baselines]
        candidates = _list_checkpoints(FUSION_CANDIDATES[candidate] for candidate in recipe.candidates)
        requires = _list_checkpoints(stages) + [
            step for step in candidates if step in self.steps and not self._find_missing(step)
        ]
        judged = [part.replace(str(self._sources.qrels), f"relevance={self._sources.qrels}") for part in self._judged]
        self._add_checkpoint(name, ("fuse", str(path), *judged), requires, [path], uses_device=True)

    @property
    def _judged(self) -> tuple[str, ...]:
        return "-i", str(self._sources.input_dir), "--qrels", str(self._sources.qrels)

    def _add_checkpoint(
        self, name: str, command: tuple[str, ...], requires: Iterable[str], inputs: Sequence[Path], missing: Iterable[str] = (),
        uses_device: bool = False, restart_flag: str = "", modules: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        if "--qrels" in command:
            missing = [*missing, *([] if self._sources.qrels else ["--qrels"])]
            inputs = [*inputs, self._sources.input_dir, *([self._sources.qrels] if self._sources.qrels else [])]
        flags = ["--work-dir", str(self._work_dir)]
        flags += ["--checkpoints", str(self._checkpoints)] if command[0] != "fit" else []
        self._add(Step(
            name, (*command, *flags), self._checkpoints / name / "provenance.json", tuple(dict.fromkeys(requires)),
            tuple(inputs), modules, tuple(missing), uses_device, restart_flag,
        ))  # fmt: skip

    def _add_task_data(self, recipe: Recipe) -> str:
        kind = recipe.task.data_kind
        return self._add_published(kind, recipe.task.published_files) if recipe.task.published_files else f"prepare {kind}"

    def _add_published(self, kind: str, names: Sequence[str]) -> str:
        folder = self._sources.find_published(names)
        arguments, inputs = (("-i", str(folder)), (folder,)) if folder else ((), ())
        return self._add_data(
            kind,
            arguments,
            {"tags": "tagging"}.get(kind, kind),
            inputs,
            () if folder else tuple(self._sources.find_missing(names)),
        )

    def _add_vectors(self, recipe: Recipe) -> str:
        method = recipe.task.surface_vector_method
        folder = get_default_folder_name(method)
        dimensions = recipe.network.get("dimensions", recipe.network_class.Config.dimensions)
        flags = ("--dimensions", str(dimensions), *(("--surface-tokens", method) if method else ()))
        return self._add_data("vectors", flags, folder, name=folder)

    def _add_data(
        self, kind: str, arguments: Iterable[str], output: str, inputs: tuple[Path, ...] = (),
        missing: tuple[str, ...] = (), name: str = "",
    ) -> str:  # fmt: skip
        command = ("prepare", kind, *arguments, "--work-dir", str(self._work_dir))
        step = Step(
            f"prepare {name or kind}", command, self._work_dir / output, inputs=inputs,
            missing=missing, restart_flag="--overwrite",
        )  # fmt: skip
        if step.name not in self.steps:
            self._add(step)
        return step.name

    def _add(self, step: Step) -> None:
        """Add a step; it also follows `prepare pairs`, which needs the working directory for itself."""
        requires = [*dict.fromkeys(["prepare pairs", *step.requires])] if self.steps else []
        inherited = [missing for name in requires for missing in self._find_missing(name)]
        missing = tuple(dict.fromkeys([*step.missing, *inherited]))
        self.steps[step.name] = replace(step, requires=tuple(requires), missing=missing)

    def _find_missing(self, name: str) -> tuple[str, ...]:
        return self.steps[name].missing if name in self.steps else (f"a recipe for {name}",)


def _list_checkpoints(stages: Iterable[Component]) -> list[str]:
    """Return the names of the checkpoints of stages and of their dependencies, each once."""
    return [*dict.fromkeys(part.checkpoint for stage in stages for part in iter_components(stage) if part.checkpoint)]
