"""Base class of stages that fuse several rankings."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from aragorn.errors import CheckpointError, InputError, InsufficientMemoryError, OutputError
from aragorn.systems.execution import CheckpointStore, Stage

MemberFingerprints = Mapping[str, Mapping[str, str]]  # member name → checkpoint name → fingerprint


class FusionModel(Protocol):
    """Interface of models fitted to the scores of a fusion's members."""

    @property
    def member_fingerprints(self) -> MemberFingerprints:
        """Fingerprints of each member's checkpoints at the time of fitting."""


ModelT = TypeVar("ModelT", bound=FusionModel)


@dataclass(frozen=True)
class FusionStage(Stage):
    """A stage that combines its members' scores with a fitted model; the member names must match
    the model's."""

    fuse_options: ClassVar[str]  # required options of `aragorn-training fuse`
    members: tuple[tuple[str, Stage], ...]
    checkpoint: str

    def get_dependencies(self) -> tuple[Stage, ...]:
        return tuple(stage for _, stage in self.members)

    def load_model(self, checkpoints: CheckpointStore, model_type: type[ModelT]) -> ModelT:
        """Load the fitted model. Raises CheckpointError if its members or their checkpoints differ
        from this stage's."""
        model = checkpoints.load_config(self.checkpoint, model_type)
        mismatch = describe_mismatch(
            model.member_fingerprints, self.get_member_fingerprints(checkpoints)
        )
        if mismatch:
            directory = checkpoints.directory / self.checkpoint
            command = f"aragorn-training fuse {self.checkpoint} {self.fuse_options} -o {directory}"
            raise CheckpointError(f"{directory}: {mismatch}; run `{command}`")
        return model

    def get_member_fingerprints(self, checkpoints: CheckpointStore) -> dict[str, dict[str, str]]:
        """Return the fingerprints of each member's checkpoints. Raises CheckpointError if one
        cannot be loaded."""
        fingerprints: dict[str, dict[str, str]] = {}
        for name, stage in self.members:
            with attribute_errors(name):
                fingerprints[name] = stage.get_fingerprints(checkpoints)
        return fingerprints

    def get_metadata(self, get_name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"interpolates": [get_name(stage) for _, stage in self.members]}


def describe_mismatch(fitted: MemberFingerprints, current: MemberFingerprints) -> str:
    """Describe how the members or their checkpoints differ from those of the fitted model; "" if
    they do not differ."""
    if fitted.keys() != current.keys():
        return f"fitted with the members {', '.join(sorted(fitted))}, but the system has {', '.join(sorted(current))}"
    changed_members = [name for name, checkpoints in fitted.items() if current[name] != checkpoints]
    return (
        f"fitted with other checkpoints of {', '.join(changed_members)}" if changed_members else ""
    )


@contextmanager
def attribute_errors(member: str) -> Iterator[None]:
    """Add the member's name to errors of the `with` block that are specific to it.

    CheckpointError keeps its type; other errors become RuntimeError.
    """
    try:
        yield
    except (InputError, InsufficientMemoryError, OutputError):
        raise  # not specific to this member
    except CheckpointError as error:
        raise CheckpointError(f"member {member} failed: {error}") from None
    except Exception as error:  # an internal error
        raise RuntimeError(f"member {member} failed: {error}") from error
