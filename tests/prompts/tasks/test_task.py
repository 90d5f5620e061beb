"""Tasks: the published six, a user's own YAML file, and what is refused with its place."""

from pathlib import Path

import pytest

from prompts.refusal import Refusal
from prompts.tasks.task import TASKS, Example, Task
from prompts.tasks.task_file import task_named


def written(folder: Path, text: str) -> str:
    file = folder / "own.yaml"
    file.write_text(text)
    return str(file)


def test_the_six_tasks_are_there_with_their_words() -> None:
    # 2212.10559, appendix A.
    assert {name: list(task.words.values()) for name, task in TASKS.items()} == {
        "mr": ["Negative", "Positive"],
        "sst2": ["Negative", "Positive"],
        "sst5": ["terrible", "bad", "neutral", "good", "great"],
        "subj": ["objective", "subjective"],
        "agnews": ["World", "Sports", "Business", "Technology"],
        "cb": ["True", "False", "Neither"],
    }


def test_a_demonstration_is_the_prompt_a_blank_and_the_word() -> None:
    example = Example({"premise": "It rains.", "hypothesis": "it is wet"}, "entailment", "line 1")
    prompt = "It rains. Question: it is wet. True, False, or Neither? Answer:"
    assert TASKS["cb"].prompt(example) == prompt
    assert TASKS["cb"].demonstration(example) == f"{prompt} True"
    assert TASKS["cb"].class_of(example) == 0


def test_braces_in_a_text_are_text() -> None:
    example = Example({"text": "a {b} {0}"}, "positive", "line 1")
    assert TASKS["mr"].prompt(example) == "Review: a {b} {0} Sentiment:"


def test_a_blank_at_the_end_of_a_template_is_dropped_and_said() -> None:
    task = Task("own", "Review: {text} Sentiment: ", {"a": "a"})
    assert task.template == "Review: {text} Sentiment:"
    assert "blank" in task.warnings[0]


def test_labels_of_a_yaml_file_stay_text(tmp_path: Path) -> None:
    task = task_named(written(tmp_path, "template: '{text} ->'\nlabels: [No, Yes]\n"))
    assert dict(task.words) == {"No": "No", "Yes": "Yes"}
    assert task.name == "own"


def test_a_yaml_file_may_map_labels_and_columns_and_name_its_data(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("review,label\na,0\n")
    text = (
        "name: films\ntemplate: '{text} ->'\nlabels: {0: bad, 1: good}\n"
        'columns: {text: review}\nseparator: "\\n"\ndata: data.csv\n'
    )
    task = task_named(written(tmp_path, text))
    assert dict(task.words) == {"0": "bad", "1": "good"}
    assert task.columns["text"] == "review"
    assert task.separator == "\n"
    assert task.source == str(tmp_path / "data.csv")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("template: '{text}:'\n", "needs 'labels'"),
        ("template: '{text}:'\nlabels: [a]\nlabel: b\n", "unknown key 'label'"),
        ("template: '{text}:'\nlabels: [a]\nlabels: [b]\n", "'labels' stands twice"),
        ("template: '{text}:'\nlabels: {a: x, a: y}\n", "'a' stands twice"),
        ("template: '{text}:'\nlabels: [a, a]\n", "'a' stands twice"),
        ("template: 'no field:'\nlabels: [a]\n", "needs a field"),
        ("template: '{text:'\nlabels: [a]\n", "balanced braces"),
        ("template: '{0}:'\nlabels: [a]\n", "plain names"),
        ("template: '{text}:'\nlabels: ['']\n", "label word needs text"),
        ("template: '{text}:'\nlabels: {a: x, b: x}\n", "'x' stands twice"),
        ("template: [a]\nlabels: [a]\n", "'template' needs one text"),
        ("template: '{text}:'\nlabels: [a]\ncolumns: {txt: x}\n", "unknown field 'txt'"),
        ("- a\n", "'key: value' lines"),
    ],
)
def test_a_task_file_is_refused_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Refusal, match=said) as refused:
        task_named(written(tmp_path, text))
    assert "own.yaml" in refused.value.where


def test_an_unknown_task_lists_near_ones() -> None:
    with pytest.raises(Refusal, match="sst2"):
        task_named("sst")


def test_an_unknown_label_names_its_place() -> None:
    with pytest.raises(Refusal, match="unknown label 'postive'") as refused:
        TASKS["mr"].class_of(Example({"text": "a"}, "postive", "x.csv, line 7"))
    assert refused.value.where == "x.csv, line 7"
