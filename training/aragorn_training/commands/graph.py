"""Define the graph of all steps from a corpus to the checkpoints of all systems."""

import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from aragorn.errors import UsageError, suggest
from aragorn.models.bert import BERTNetwork
from aragorn.pipeline.retrieval import READERS, Component, iter_components
from aragorn.storage.atomic_files import sha256_file
from aragorn.storage.checkpoint_directory import METRICS
from aragorn.systems.catalogue import ENSEMBLES, FUSION_CANDIDATES, QUALITY_RERANKINGS, SYSTEMS
from aragorn.systems.enrichment import Enrichment
from aragorn.versions import describe_versions
from aragorn_training import configs
from aragorn_training.commands.all_options import Options
from aragorn_training.data import quality
from aragorn_training.data.datasets import webis_argquality
from aragorn_training.data.word_vectors import get_default_folder_name
from aragorn_training.data.work_directory import hash_json
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.fusion.recipe import load_fusion_recipe
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
    **{f"fuse {name}": "aragorn_training.fusion.ensemble" for name in ENSEMBLES},
}
# verbs with --overwrite, which discards only results of other inputs, settings or versions
OVERWRITING = ("prepare", "fit")
# output of `prepare KIND` in the working directory, if not KIND
FOLDERS = {"pairs": "manifest.json", "tags": "tagging"}

Argument = str | Path | tuple[str, Path]  # the parts of a tuple are joined


@dataclass(frozen=True)
class Step:
    """A command of `aragorn-training` that writes training data or a checkpoint."""

    name: str  # name of the checkpoint, or `prepare KIND`
    command: tuple[Argument, ...]  # verb and arguments that decide the output
    output: Path  # file or directory that exists when the step is finished
    requires: tuple[str, ...] = ()  # names of steps
    missing: tuple[str, ...] = ()  # inputs that are not given
    # arguments that name the working directory and its checkpoints
    directories: tuple[str, ...] = ()
    uses_device: bool = False
    # classes and modules whose versions decide the output, besides CODE
    sources: tuple[type | str, ...] = ()
    stored: Path | None = None  # checkpoint that is copied instead

    @property
    def arguments(self) -> list[str]:
        """Arguments of `aragorn-training`."""
        parts = [part if isinstance(part, tuple) else (part,) for part in self.command]
        flags = ["--overwrite"] if self.command[0] in OVERWRITING else []
        return ["".join(map(str, part)) for part in parts] + [*self.directories, *flags]

    def hash_output(self) -> str:
        """Hash the provenance or manifests, which name the contents of the output; return "" if it
        does not exist."""
        if not self.output.exists():
            return ""
        files = sorted(self.output.glob("*.json")) if self.output.is_dir() else [self.output]
        return hash_json([[file.name, sha256_file(file)] for file in files])

    def compute_key(self, requirement_keys: Sequence[str]) -> str:
        """Hash what decides the output: settings, inputs, versions and keys of required steps."""
        verb = str(self.command[0])
        module = CODE.get(f"{verb} {self.command[1]}" if len(self.command) > 1 else verb)
        versions = describe_versions(module or CODE[verb], *self.sources)
        command = [
            [_hash_path(part) if isinstance(part, Path) else part for part in parts]
            for parts in (part if isinstance(part, tuple) else (part,) for part in self.command)
        ]
        return hash_json([self.name, command, versions, *requirement_keys])


@cache
def _hash_path(path: Path) -> object:
    """Hash a file or the files below a directory; of TOML the values, as comments may change."""
    if path.suffix == ".toml":
        return hash_json(tomllib.loads(path.read_text(encoding="utf-8")))
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [[file.name, sha256_file(file)] for file in files if file.is_file()]


def build_graph(options: Options, trained: Collection[str] = ()) -> dict[str, Step]:
    """Build all steps by name, each after its requirements; a step whose input is not given, or
    that requires such a step, is `missing` it. Checkpoints `trained` in the working directory are
    not reused."""
    graph = _Graph(options, trained)
    for name in list_system_checkpoints():
        graph.add(name)
    return graph.steps


def select_steps(steps: Mapping[str, Step], only: Sequence[str]) -> list[str]:
    """Return `only`, or all steps that can be run, and those they require, in order; raise
    UsageError for a step that is unknown or lacks an input."""
    for name in only:
        if name not in steps:
            raise UsageError(f"unknown step {name!r}; {suggest(name, steps)}")
        if missing := steps[name].missing:
            raise UsageError(
                f"{name}: missing {', '.join(missing)}; add it, or remove {name} from --only"
            )
    selection = {*only} or {
        name for name, step in steps.items() if not step.missing and step.command[0] != "prepare"
    }
    for name in reversed([*steps]):
        if name in selection:
            selection |= {*steps[name].requires}
    return [name for name in steps if name in selection]


def list_system_checkpoints() -> list[str]:
    """Return the names of the checkpoints of all systems."""
    return _list_checkpoints(system.stage for system in SYSTEMS.values())


def _list_checkpoints(stages: Iterable[Component]) -> list[str]:
    """Return the names of the checkpoints of stages and of their dependencies, each once."""
    parts = (part for stage in stages for part in iter_components(stage))
    return [*dict.fromkeys(part.checkpoint for part in parts if part.checkpoint)]


def _list_sources(components: Iterable[Component]) -> tuple[type | str, ...]:
    """Return what reads an input, and the classes that rank its documents."""
    parts = (part for component in components for part in iter_components(component))
    return (*READERS, *dict.fromkeys(map(type, parts)))


class _Graph:
    """Steps that are added after the steps that they require."""

    def __init__(self, options: Options, trained: Collection[str]) -> None:
        self.steps: dict[str, Step] = {}
        self._options = options
        self._not_reused = {*options.only, *trained}
        self._corpus: tuple[Argument, ...] = ("-i", options.input_dir)
        self._missing_qrels = [] if options.qrels else ["--qrels"]
        self._add_data("pairs", self._corpus)

    def _find_stored(self, name: str) -> Path | None:
        """Return the stored checkpoint to be copied instead of making it, if there is one."""
        if not self._options.reuse or name in self._not_reused:
            return None
        checkpoint = self._options.checkpoint_dir / name
        return checkpoint if (checkpoint / METRICS).is_file() else None

    def _find_published(self, names: Sequence[str]) -> tuple[Path | None, list[str]]:
        """Return the first directory below --data that contains one of the names, if any, and
        the names that it lacks, or --data if that is not given."""
        if not self._options.data_dir:
            return None, ["--data"] if names else []
        paths = [path for name in names for path in sorted(self._options.data_dir.rglob(name))]
        folder = paths[0].parent if paths else None
        return folder, [name for name in names if not (folder and (folder / name).exists())]

    def _list_input_arguments(self, prefix: str = "--", name: str = "") -> tuple[Argument, ...]:
        """Return the arguments that name corpus and qrels."""
        qrels = self._options.qrels
        return (*self._corpus, *((f"{prefix}qrels", (name, qrels)) if qrels else ()))

    def add(self, name: str) -> None:
        """Add the step that makes a checkpoint."""
        if name in self.steps:
            return
        if stored := self._find_stored(name):
            self._add_checkpoint(name, ("fit", stored), [], [], stored=stored)
        elif name in configs.list_names("recipe"):
            self._add_network(name)
        elif name in configs.list_names("grid"):
            self._add_grid(name)
        elif name in configs.list_names("fusion"):
            self._add_fusion(name)
        else:
            self._add_combination(name)

    def _add_network(self, name: str) -> None:
        path = configs.find("recipe", name, self._options.recipes_dir)
        recipe = load_recipe(str(path))
        requires = [self._add_examples(recipe)]
        if not issubclass(recipe.network_class, BERTNetwork):
            requires.append(self._add_vectors(recipe))
        if recipe.initial_checkpoint:
            requires.append(recipe.initial_checkpoint)
        _, missing = self._find_published(recipe.task.published_files)
        missing += self._missing_qrels if recipe.task.needs_qrels else []
        sources = (recipe.network_class, type(recipe.task))
        self._add_checkpoint(name, ("fit", path), requires, missing, sources=sources)

    def _add_examples(self, recipe: Recipe) -> str:
        kind = recipe.task.data_kind
        names = recipe.task.published_files
        if names:
            return self._add_published(kind, names)
        is_known = f"prepare {kind}" in CODE
        missing = () if is_known else (f"prepare {kind}",)
        return self._add_data(kind, self._list_input_arguments("--exclude-"), missing=missing)

    def _add_vectors(self, recipe: Recipe) -> str:
        method = recipe.task.surface_vector_method
        dimensions = recipe.network.get("dimensions", recipe.network_class.Config.dimensions)
        flags = ("--dimensions", str(dimensions), *(("--surface-tokens", method) if method else ()))
        return self._add_data("vectors", flags, name=get_default_folder_name(method))

    def _add_grid(self, name: str) -> None:
        """Add a grid; the smallest of a tagger caches the enriched documents for the others."""
        paths = {
            grid: configs.find("grid", grid, self._options.recipes_dir)
            for grid in configs.list_names("grid")
        }
        grids = {grid: load_grid(str(path)).points for grid, path in paths.items()}
        tagger = grids[name][0].enrichment
        requires = []
        if tagger:
            same_tagger = [grid for grid in grids if grids[grid][0].enrichment == tagger]
            smallest = min(same_tagger, key=lambda grid: len(grids[grid]))
            requires = [tagger, *([smallest] if smallest != name else [])]
        command = ("tune", paths[name], *self._list_input_arguments())
        sources = _list_sources([Enrichment(tagger)] if tagger else [])
        self._add_checkpoint(name, command, requires, self._missing_qrels, bool(tagger), sources)

    def _add_combination(self, name: str) -> None:
        """Add an ensemble or a re-ranking by quality, whose components are checkpoints."""
        system = next(system for system in SYSTEMS.values() if system.stage.checkpoint == name)
        requires = [step for step in _list_checkpoints([system.stage]) if step != name]
        command: tuple[Argument, ...] = ("fuse", system.name)
        missing: list[str] = []
        if system.name in QUALITY_RERANKINGS:
            requires.append(self._add_published("quality", [webis_argquality.FOLDER]))
            _, missing = self._find_published([webis_argquality.FOLDER])
            missing = self._missing_qrels + missing
            command = ("tune", system.name, *self._list_input_arguments())
        sources = _list_sources([system.stage])
        self._add_checkpoint(name, command, requires, missing, sources=sources)

    def _add_fusion(self, name: str) -> None:
        """Add a learned fusion, after its members and its baselines."""
        path = configs.find("fusion", name, self._options.recipes_dir)
        recipe = load_fusion_recipe(str(path))
        members = [FUSION_CANDIDATES[member] for member in recipe.members]
        baselines = [SYSTEMS[baseline].stage for baseline in recipe.baselines]
        command = ("fuse", path, *self._list_input_arguments(name="relevance="))
        requires = _list_checkpoints([*members, *baselines])
        sources = _list_sources([*members, *baselines])
        self._add_checkpoint(name, command, requires, self._missing_qrels, sources=sources)

    def _add_checkpoint(
        self,
        name: str,
        command: tuple[Argument, ...],
        requires: Sequence[str],
        missing: Sequence[str],
        uses_device: bool = True,
        sources: tuple[type | str, ...] = (),
        stored: Path | None = None,
    ) -> None:
        for requirement in requires:
            self.add(requirement)
        checkpoints = self._options.work_dir / "checkpoints"
        output = checkpoints / name / "provenance.json"
        directories = () if command[0] == "fit" else ("--checkpoints", str(checkpoints))
        needs = (tuple(requires), tuple(missing))
        self._add(Step(name, command, output, *needs, directories, uses_device, sources, stored))

    def _add_published(self, kind: str, names: Sequence[str]) -> str:
        folder, missing = self._find_published(names)
        folders = [folder]
        if kind == "quality":  # each data set may be in another directory
            folders = [self._find_published([name])[0] for name in quality.FOLDERS.values()]
        if arguments := [("--input=", folder) for folder in dict.fromkeys(folders) if folder]:
            return self._add_data(kind, (*arguments,))
        return self._add_data(kind, (), missing=tuple(missing))

    def _add_data(
        self,
        kind: str,
        arguments: tuple[Argument, ...],
        name: str = "",
        missing: tuple[str, ...] = (),
    ) -> str:
        step_name = f"prepare {name or kind}"
        if step_name not in self.steps:
            output = self._options.work_dir / FOLDERS.get(kind, name or kind)
            self._add(Step(step_name, ("prepare", kind, *arguments), output, missing=missing))
        return step_name

    def _add(self, step: Step) -> None:
        """Add a step after `prepare pairs`, which locks the working directory."""
        requires = [*dict.fromkeys(["prepare pairs", *step.requires])] if self.steps else []
        missing = [*step.missing, *(text for name in requires for text in self.steps[name].missing)]
        self.steps[step.name] = replace(
            step,
            requires=tuple(requires),
            missing=tuple(dict.fromkeys(missing)),
            directories=("--work-dir", str(self._options.work_dir), *step.directories),
        )
