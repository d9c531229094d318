"""Build the graph of all steps from a corpus to the checkpoints of all systems."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from aragorn.models.bert import BERTNetwork
from aragorn.storage.atomic_files import sha256_file
from aragorn.storage.checkpoint_directory import METRICS
from aragorn.storage.code_fingerprint import code_fingerprint
from aragorn.systems.catalogue import FUSION_CANDIDATES, SYSTEMS
from aragorn.systems.execution import Component, iter_components
from aragorn.systems.fusion import EnsembleStage
from aragorn.systems.quality_reranking import QualityRerankingStage

from aragorn_training import configs
from aragorn_training.data.datasets import webis_argquality
from aragorn_training.data.word_vectors import get_default_folder_name
from aragorn_training.data.work_directory import hash_json
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.fusion.recipe import read_recipe
from aragorn_training.tasks import load_recipe
from aragorn_training.tuning.grid import load_grid

CODE = {  # module that decides the output, by command; `fit` adds those of its network and task
    "prepare pairs": "aragorn_training.data.pairs",
    "prepare passages": "aragorn_training.data.term_weighting",
    "prepare quality": "aragorn_training.data.quality",
    "prepare tags": "aragorn_training.data.tagged_documents",
    "prepare vectors": "aragorn_training.data.word_vectors",
    "fit": "aragorn_training.fitting.training_loop",
    "tune": "aragorn_training.tuning.grid",
    "tune tfr_bert": "aragorn_training.tuning.quality",
    "fuse": "aragorn_training.fusion.learned",
    **{
        f"fuse {key}": "aragorn_training.fusion.ensemble"
        for key, system in SYSTEMS.items()
        if isinstance(system.stage, EnsembleStage)
    },
}
# output of `prepare KIND` in the working directory, if not KIND
FOLDERS = {"pairs": "manifest.json", "tags": "tagging"}


@dataclass(frozen=True)
class Sources:
    """Inputs of the graph; None: not given."""

    input_dir: Path  # topics and args.me corpus
    work_dir: Path
    data_dir: Path | None = None  # published data sets, in any subdirectories
    qrels: Path | None = None
    # recipes, grids and fusions that replace those of training/aragorn_training/configs
    recipes_dir: Path | None = None

    def find_published(self, names: Sequence[str]) -> Path | None:
        """Return the first directory below `data_dir` that contains one of the names, or None."""
        paths = (
            [path for name in names for path in sorted(self.data_dir.rglob(name))]
            if self.data_dir
            else []
        )
        return paths[0].parent if paths else None

    def find_missing(self, names: Sequence[str]) -> list[str]:
        """Return the published files and folders that are not below `data_dir`, or --data if it is
        not given."""
        folder = self.find_published(names)
        missing = [name for name in names if not (folder and (folder / name).exists())]
        return ["--data"] if missing and not self.data_dir else missing


@dataclass(frozen=True)
class Step:
    """A command of `aragorn-training` that writes training data or a checkpoint."""

    name: str  # name of the checkpoint, or `prepare KIND`
    command: tuple[str, ...]  # verb, names and settings
    output: Path  # file or directory that exists when the step is finished
    # by arguments, in which {} is replaced by the path
    inputs: Mapping[str, Path] = field(default_factory=dict)
    requires: tuple[str, ...] = ()  # names of steps
    missing: tuple[str, ...] = ()  # inputs that are not given
    # arguments that name the working directory and its checkpoints
    directories: tuple[str, ...] = ()
    uses_device: bool = False
    modules: tuple[str, ...] = ()  # modules that decide the output, besides those in CODE
    restart_flag: str = ""  # discards results of other inputs, settings or code

    @property
    def arguments(self) -> list[str]:
        """Arguments of `aragorn-training`."""
        inputs = [part.format(path) for text, path in self.inputs.items() for part in text.split()]
        return [*self.command, *inputs, *self.directories]

    def compute_key(self, requirement_keys: Sequence[str]) -> str:
        """Hash everything that decides the output: settings, inputs, code and the keys of the
        required steps."""
        code = code_fingerprint(
            CODE.get(" ".join(self.command[:2])) or CODE[self.command[0]], *self.modules
        )
        inputs = [[text, _hash_path(path)] for text, path in self.inputs.items()]
        return hash_json([self.name, self.command, inputs, code, *requirement_keys])


@cache
def _hash_path(path: Path) -> object:
    """Hash a file or all files below a directory; of a TOML file only the values, so that comments
    can be edited."""
    if path.suffix == ".toml":
        return hash_json(tomllib.loads(path.read_text(encoding="utf-8")))
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [[file.name, sha256_file(file)] for file in files if file.is_file()]


def build_graph(sources: Sources) -> dict[str, Step]:
    """Build all steps by name, in an order in which each follows its requirements; a fusion is the
    last system.

    A step whose input is not given, or that requires such a step, is `missing` it.
    """
    graph = _Graph(sources)
    for name in list_system_checkpoints():
        graph.add(name)
    return graph.steps


def list_reusable(steps: Iterable[str], only: Iterable[str], directory: Path) -> list[str]:
    """Return the names of the checkpoints in a directory that steps make, except those in `only`."""
    return [name for name in steps if name not in only and (directory / name / METRICS).is_file()]


def replace_by_stored(step: Step, checkpoint: Path) -> Step:
    """Return a step whose output is a copy of a stored checkpoint, which requires nothing."""
    return replace(step, inputs={"{}": checkpoint}, requires=(), missing=())


def list_system_checkpoints() -> list[str]:
    """Return the names of the checkpoints of all systems."""
    return _list_checkpoints(system.stage for system in SYSTEMS.values())


def _list_checkpoints(stages: Iterable[Component]) -> list[str]:
    """Return the names of the checkpoints of stages and of their dependencies, each once."""
    return [
        *dict.fromkeys(
            part.checkpoint
            for stage in stages
            for part in iter_components(stage)
            if part.checkpoint
        )
    ]


class _Graph:
    """Steps that are added after the steps that they require."""

    def __init__(self, sources: Sources) -> None:
        self.steps: dict[str, Step] = {}
        self._sources, self._corpus = sources, {"-i {}": sources.input_dir}
        self._judged = self._corpus | ({"--qrels {}": sources.qrels} if sources.qrels else {})
        self._missing_qrels = [] if sources.qrels else ["--qrels"]
        self._add_data("pairs", self._corpus)

    def add(self, name: str) -> None:
        """Add the step that makes a checkpoint."""
        if name in self.steps:
            return
        if name in configs.list_names("recipe"):
            self._add_network(name)
        elif name in configs.list_names("grid"):
            self._add_grid(name)
        elif name in configs.list_names("fusion"):
            self._add_fusion(name)
        else:
            self._add_combination(name)

    def _add_network(self, name: str) -> None:
        path = configs.find("recipe", name, self._sources.recipes_dir)
        recipe = load_recipe(str(path))
        requires = [self._add_examples(recipe)]
        if not issubclass(recipe.network_class, BERTNetwork):
            requires.append(self._add_vectors(recipe))
        if recipe.initial_checkpoint:
            requires.append(recipe.initial_checkpoint)
        missing = self._sources.find_missing(recipe.task.published_files)
        missing += self._missing_qrels if recipe.task.needs_qrels else []
        modules = recipe.network_class.__module__, type(recipe.task).__module__
        step = Step(
            name,
            ("fit",),
            Path(),
            {"{}": path},
            modules=modules,
            uses_device=True,
            restart_flag="--restart",
        )
        self._add_checkpoint(step, requires, missing)

    def _add_examples(self, recipe: Recipe) -> str:
        kind, names = recipe.task.data_kind, recipe.task.published_files
        if names:
            return self._add_published(kind, names)
        inputs = {text.replace("--", "--exclude-"): path for text, path in self._judged.items()}
        return self._add_data(
            kind, inputs, missing=() if f"prepare {kind}" in CODE else (f"prepare {kind}",)
        )

    def _add_vectors(self, recipe: Recipe) -> str:
        method = recipe.task.surface_vector_method
        dimensions = recipe.network.get("dimensions", recipe.network_class.Config.dimensions)
        flags = ("--dimensions", str(dimensions), *(("--surface-tokens", method) if method else ()))
        return self._add_data("vectors", {}, flags, name=get_default_folder_name(method))

    def _add_grid(self, name: str) -> None:
        """Add the tuning of a lexical system; the smallest grid of an enricher caches the enriched
        documents for the others."""
        paths = {
            grid: configs.find("grid", grid, self._sources.recipes_dir)
            for grid in configs.list_names("grid")
        }
        grids = {grid: load_grid(str(path)).points for grid, path in paths.items()}
        enricher, requires = grids[name][0].enrichment, list[str]()
        if enricher:
            smallest = min(
                (grid for grid in grids if grids[grid][0].enrichment == enricher),
                key=lambda grid: len(grids[grid]),
            )
            requires = [enricher, *([smallest] if smallest != name else [])]
        step = Step(
            name, ("tune",), Path(), {"{}": paths[name]} | self._judged, uses_device=bool(enricher)
        )
        self._add_checkpoint(step, requires, self._missing_qrels)

    def _add_combination(self, name: str) -> None:
        """Add an ensemble or a re-ranking by quality, whose components are checkpoints."""
        system = next(system for system in SYSTEMS.values() if system.stage.checkpoint == name)
        requires, missing = (
            [step for step in _list_checkpoints([system.stage]) if step != name],
            list[str](),
        )
        step = Step(name, ("fuse", system.name), Path(), uses_device=True)
        if isinstance(system.stage, QualityRerankingStage):
            requires.append(self._add_published("quality", [webis_argquality.FOLDER]))
            missing = self._missing_qrels + self._sources.find_missing([webis_argquality.FOLDER])
            step = replace(step, command=("tune", system.name), inputs=self._judged)
        else:
            assert isinstance(system.stage, EnsembleStage)
        self._add_checkpoint(step, requires, missing)

    def _add_fusion(self, name: str) -> None:
        """Add a learned fusion, after its members and its baselines."""
        path = configs.find("fusion", name, self._sources.recipes_dir)
        recipe = read_recipe(str(path))
        stages = [FUSION_CANDIDATES[member] for member in recipe.members] + [
            SYSTEMS[name].stage for name in recipe.baselines
        ]
        requires = _list_checkpoints(stages)
        inputs = {"{}": path} | {
            text.replace("--qrels ", "--qrels relevance="): file
            for text, file in self._judged.items()
        }
        self._add_checkpoint(
            Step(name, ("fuse",), Path(), inputs, uses_device=True), requires, self._missing_qrels
        )

    def _add_checkpoint(self, step: Step, requires: Iterable[str], missing: Iterable[str]) -> None:
        for requirement in requires:
            self.add(requirement)
        checkpoints = self._sources.work_dir / "checkpoints"
        flags = ("--checkpoints", str(checkpoints)) if step.command != ("fit",) else ()
        step = replace(step, output=checkpoints / step.name / "provenance.json", directories=flags)
        self._add(replace(step, requires=tuple(requires), missing=tuple(missing)))

    def _add_published(self, kind: str, names: Sequence[str]) -> str:
        folder = self._sources.find_published(names)
        missing = () if folder else tuple(self._sources.find_missing(names))
        return self._add_data(kind, {"-i {}": folder} if folder else {}, missing=missing)

    def _add_data(
        self,
        kind: str,
        inputs: Mapping[str, Path],
        flags: tuple[str, ...] = (),
        name: str = "",
        missing: tuple[str, ...] = (),
    ) -> str:
        output = self._sources.work_dir / FOLDERS.get(kind, name or kind)
        step = Step(
            f"prepare {name or kind}",
            ("prepare", kind, *flags),
            output,
            inputs,
            restart_flag="--overwrite",
        )
        if step.name not in self.steps:
            self._add(replace(step, missing=missing))
        return step.name

    def _add(self, step: Step) -> None:
        """Add a step after `prepare pairs`, during which no other process can use the working
        directory."""
        requires = [*dict.fromkeys(["prepare pairs", *step.requires])] if self.steps else []
        missing = dict.fromkeys(
            [*step.missing, *(text for name in requires for text in self.steps[name].missing)]
        )
        directories = ("--work-dir", str(self._sources.work_dir), *step.directories)
        self.steps[step.name] = replace(
            step, requires=tuple(requires), missing=tuple(missing), directories=directories
        )
