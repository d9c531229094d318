"""Write small tagged documents in the format of TARGER's authors."""

import numpy as np

from tests.unit.training.conftest import TOPIC_WORDS


def write_tagged(directory, documents=40):
    """Write essays and web documents; premises begin with `because`, claims with `so`."""
    rng = np.random.default_rng(6)
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("es", "wd"):
        lines = []
        for _ in range(documents):
            lines += ["-DOCSTART- -X- O O", ""]
            for _ in range(rng.integers(2, 5)):
                lines += [f"{word} O" for word in rng.choice(TOPIC_WORDS, rng.integers(0, 3))]
                first_word, component_type = [("because", "P"), ("so", "C")][rng.integers(2)]
                words = [first_word, *rng.choice(TOPIC_WORDS, rng.integers(1, 4))]
                lines += [
                    f"{word} {component_type}-{'I' if index else 'B'}"
                    for index, word in enumerate(words)
                ]
                lines += [". O", ""]
        (directory / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return directory
