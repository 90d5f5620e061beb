"""What a person runs first on a new model: is it captured right, and what would a study cost?"""

import resource
import time
from dataclasses import asdict
from typing import Any, NamedTuple

from hatlens.cells import ANSWER_TOKENS, TRAINED, Tokens, cell
from hatlens.config import StudyConfig
from hatlens.measure import check_names, tokenize_sets
from hatlens.progress import Report, silent
from hatlens.sets import MAIN, PAIRS_A, PROBES, REPLICATE, draw_sets
from hatlens.tokenizer_facts import TokenizerFacts, tokenizer_facts
from probes.families import Family, family_of
from probes.model_check import nats_per_token
from probes.model_facts import attention_path, positions_depend_on_length, window
from probes.models import LoadedModel, load_model
from probes.parity import ParityReport, parity_gate
from prompts.refusal import Refusal

# A model that cannot run its prompts fails in ways of its own.
FAILURES = (ValueError, RuntimeError, IndexError, TypeError, AttributeError)
# Half of a pair's examples are shared, and run once.
CONTEXTS_IN_A_PAIR = 1.5
CLEARLY_BETTER_NATS = 0.5


class Problem(NamedTuple):
    """A sentence, and whether it forbids verdicts on this model with these settings."""

    sentence: str
    unsafe: bool = False


class Estimate(NamedTuple):
    """The study's forwards and answers in seconds; peak memory and the run folder in bytes.

    One context was timed; drawing prompts and the analysis of the stored rows come on top.
    """

    seconds: float
    memory_bytes: int
    folder_bytes: int


class Diagnosis(NamedTuple):
    """What is known of a model; None where a problem kept it from being known."""

    model: str
    path: str
    family: Family | None
    parity: ParityReport | None
    tokenizer: TokenizerFacts | None
    estimate: Estimate | None
    problems: tuple[Problem, ...]

    @property
    def safe_for_verdicts(self) -> bool:
        return not any(problem.unsafe for problem in self.problems)

    def as_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        facts, cost = self.tokenizer, self.estimate
        return {
            "model": self.model,
            "path": self.path,
            "parity": None if self.parity is None else asdict(self.parity),
            "tokenizer": {
                "bos": facts.bos if facts else None,
                "digits_per_token": facts.digits_per_token if facts else None,
                "merges": [merge._asdict() for merge in facts.merges] if facts else None,
            },
            "estimate": {
                "seconds": cost.seconds if cost else None,
                "bytes": cost.memory_bytes if cost else None,
            },
            "safe_for_verdicts": self.safe_for_verdicts,
            "problems": [problem.sentence for problem in self.problems],
        }


def diagnose(config: StudyConfig, report: Report = silent) -> Diagnosis:
    """Load the model and hold it against a study of these settings.

    Refuses only a model that cannot be loaded; whatever else is wrong is a problem.
    """
    check_names(config)
    report("load the model", 0, 1)
    loaded = load_model(
        config.model,
        revision=config.revision,
        dtype=config.dtype,
        device=config.device,
        trust_remote_code=config.trust_remote_code,
    )
    report("load the model", 1, 1)
    return diagnose_loaded(loaded, config, report)


def diagnose_loaded(loaded: LoadedModel, config: StudyConfig, report: Report = silent) -> Diagnosis:
    """As `diagnose`, of a model that is loaded."""
    problems: list[Problem] = []
    family = family_of(loaded.model.config)
    path = attempt(problems, attention_path, loaded.model) or "refused"
    facts = attempt(problems, tokenizer_facts, loaded.tokenizer, config)
    problems += precision(config) + surprise(loaded)
    parity = estimate = None
    if path != "refused":
        tokens = attempt(problems, study_tokens, config, loaded)
        if tokens is not None:
            problems += limits(loaded, tokens)
            report("parity gate", 0, 2)
            parity = attempt(problems, parity_gate, loaded, tokens[MAIN][0])
            report("parity gate", 1, 2)
            estimate = attempt(problems, estimated, config, loaded, tokens) if parity else None
            report("one timed context", 2, 2)
    unique = tuple(dict.fromkeys(problems))
    return Diagnosis(loaded.name, path, family, parity, facts, estimate, unique)


def attempt(problems: list[Problem], step: Any, *given: Any) -> Any:
    """What the step gives; None, and an unsafe problem, where it fails."""
    try:
        return step(*given)
    except Refusal as refusal:
        problems.append(Problem(str(refusal), unsafe=True))
    except FAILURES as error:
        words = " ".join(str(error).split())[:200]
        problems.append(Problem(f"{step.__name__}: {type(error).__name__}: {words}", unsafe=True))
    return None


def study_tokens(config: StudyConfig, loaded: LoadedModel) -> Tokens:
    """All main prompts as the study would feed them.

    Refuses ids for which the model has no embedding: its tokenizer is another model's.
    """
    drawn = draw_sets(config.model_copy(update={"pairs": 0, "replicate": False}))
    tokens = tokenize_sets(config, drawn, loaded)
    largest = max(max(one.prefix.max(), one.suffixes.max()) for one in tokens[MAIN])
    rows = int(loaded.model.get_input_embeddings().weight.shape[0])  # type: ignore[operator]
    if largest >= rows:
        raise Refusal(
            f"needed token ids below {rows}, the model's embeddings, came {largest}: "
            "the tokenizer is another model's"
        )
    return tokens


def precision(config: StudyConfig) -> list[Problem]:
    if config.dtype == "float32":
        return []
    return [Problem(f"{config.dtype} gives previews; a verdict needs float32", unsafe=True)]


def surprise(loaded: LoadedModel) -> list[Problem]:
    """Whether plain English says that the tokenizer or its BOS is not the model's own."""
    try:
        nats = nats_per_token(loaded)
        bos = loaded.tokenizer.bos_token_id
        begun = nats if bos is None else nats_per_token(loaded, lead=bos)
    except FAILURES:
        return []
    chance = float(loaded.model.config.get_text_config().vocab_size)
    found = []
    if nats > CHANCE_NATS(chance):
        found.append(
            Problem(
                f"plain English surprises it by {nats:.1f} nats a token, chance by "
                f"{CHANCE_NATS(chance):.1f}: untrained, or the tokenizer is another model's"
            )
        )
    elif begun < nats - CLEARLY_BETTER_NATS:
        found.append(
            Problem(
                f"plain English surprises it by {nats:.1f} nats a token, by {begun:.1f} with its "
                "BOS token in front, which the tokenizer leaves out: use --bos always"
            )
        )
    return found


def limits(loaded: LoadedModel, tokens: Tokens) -> list[Problem]:
    """Where the study's prompts reach what the model can hold or see."""
    first = tokens[MAIN][0]
    length = len(first.prefix) + first.suffixes.shape[1] + ANSWER_TOKENS
    found = []
    if positions_depend_on_length(loaded.model, length):
        found.append("its positions depend on the prompt's length here: no prefix is shared")
    seen = window(loaded.model)
    if seen is not None and seen < length:
        found.append(
            f"layers with a window of {seen} tokens do not see all of {length}: "
            "examples outside it are NaN there, and counted"
        )
    return [Problem(sentence) for sentence in found]


def estimated(config: StudyConfig, loaded: LoadedModel, tokens: Tokens) -> Estimate:
    """Time and bytes of the whole study, from its first context on the trained model."""
    begun = time.perf_counter()
    arrays = cell(MAIN, 0, TRAINED, loaded, tokens)
    whole = time.perf_counter() - begun
    answers = float(arrays["seconds"][1])
    forward = whole - answers
    sets = {MAIN: config.contexts}
    if config.data is None:
        sets[REPLICATE] = config.contexts if config.replicate else 0
        sets[PAIRS_A] = config.pairs if config.features > 1 else 0
    contexts = sets[MAIN] + sets.get(REPLICATE, 0) + CONTEXTS_IN_A_PAIR * sets.get(PAIRS_A, 0)
    models = 1 + len(config.twins)
    scores = arrays["score"].nbytes
    each = sets[MAIN] + sets.get(REPLICATE, 0)
    pairs = 2 * sets.get(PAIRS_A, 0) * PROBES // arrays["score"].shape[-1]
    kept = sum(array.nbytes for array in arrays.values()) - scores
    weights = sum(p.numel() * p.element_size() for p in loaded.model.parameters())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Estimate(
        seconds=models * (contexts * forward + sets[MAIN] * answers),
        memory_bytes=peak + (weights if config.twins else 0),
        folder_bytes=models * (each + pairs) * scores + sets[MAIN] * kept,
    )
