"""What a person runs first on a new model: is it captured right, and what would a study cost?"""

from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

from hatlens.cells import ANSWER_TOKENS, Tokens
from hatlens.config import StudyConfig
from hatlens.measure import check_names, load_configured, tokenize_sets
from hatlens.progress import Report, silent
from hatlens.sets import MAIN, StudySets, draw_sets
from hatlens.study_cost import Estimate, study_cost
from hatlens.tokenizer_facts import TokenizerFacts, tokenizer_facts
from probes.families import family_of
from probes.family import Family
from probes.model_facts import attention_path, positions_depend_on_length, window
from probes.models import LoadedModel
from probes.parity import ParityReport, parity_gate
from probes.parity_checks import refuse_foreign_ids
from probes.tokenizer_gate import tokenizer_gate
from prompts.refusal import Refusal

# A model that cannot run its prompts fails in ways of its own.
FAILURES = (ValueError, RuntimeError, IndexError, TypeError, AttributeError)


class Problem(NamedTuple):
    """A sentence, and whether it forbids verdicts on this model with these settings."""

    sentence: str
    unsafe: bool = False


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
                "not_counted": cost.not_counted if cost else None,
            },
            "safe_for_verdicts": self.safe_for_verdicts,
            "problems": [problem.sentence for problem in self.problems],
        }


def diagnose(config: StudyConfig, report: Report = silent) -> Diagnosis:
    """Load the model and hold it against a study of these settings.

    Refuses only a model that cannot be loaded; whatever else is wrong is a problem.
    """
    check_names(config)
    return diagnose_loaded(load_configured(config, report), config, report)


def diagnose_loaded(loaded: LoadedModel, config: StudyConfig, report: Report = silent) -> Diagnosis:
    """As `diagnose`, of a model that is loaded."""
    problems: list[Problem] = []
    family = family_of(loaded.model.config)
    path = attempt(problems, attention_path, loaded.model) or "refused"
    facts = attempt(problems, tokenizer_facts, loaded.tokenizer, config)
    problems += precision(config)
    parity = estimate = None
    if path != "refused":
        study = draw_sets(config)
        tokens = attempt(problems, study_tokens, config, study, loaded)
        if tokens is not None:
            problems += limits(loaded, tokens)
            fits = attempt(problems, partial(tokenizer_gate, bos=tokens[MAIN][0].bos), loaded)
            problems += [Problem(note) for note in fits.notes] if fits else []
            report("parity gate", 0, 1)
            parity = attempt(problems, parity_gate, loaded, tokens[MAIN][0])
            report("parity gate", 1, 1)
            report("one timed context", 0, 1)
            estimate = attempt(problems, study_cost, config, study, loaded, tokens)
            report("one timed context", 1, 1)
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
        problems.append(Problem(f"{_named(step)}: {type(error).__name__}: {words}", unsafe=True))
    return None


def _named(step: Any) -> str:
    return str(step.func.__name__ if isinstance(step, partial) else step.__name__)


def study_tokens(config: StudyConfig, study: StudySets, loaded: LoadedModel) -> Tokens:
    """All main prompts as the study would feed them.

    Refuses ids for which the model has no embedding: its tokenizer is another model's.
    """
    main = study._replace(sets={MAIN: study.sets[MAIN]})
    tokens = tokenize_sets(config, main, loaded)
    largest = max(max(one.prefix.max(), one.suffixes.max()) for one in tokens[MAIN])
    refuse_foreign_ids(loaded.model, int(largest))
    return tokens


def precision(config: StudyConfig) -> list[Problem]:
    if config.dtype == "float32":
        return []
    return [Problem(f"{config.dtype} gives previews; a verdict needs float32", unsafe=True)]


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
