"""Settings mean the same as flags, as YAML and in Python, and wrong ones are refused by name."""

from pathlib import Path

import pytest

from hatlens.config import build_config
from prompts.refusal import Refusal
from prompts.yaml_file import read_yaml


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "study.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_yaml_scalars_take_the_type_of_their_setting(tmp_path: Path) -> None:
    file = written(tmp_path, "revision: 0123456\nnoise: 1e-3\ntwins: [No, Yes]\nreplicate: false\n")
    config = build_config(read_yaml(file))
    assert config.revision == "0123456"
    assert config.noise == 0.001
    assert config.twins == ("No", "Yes")
    assert config.replicate is False


@pytest.mark.parametrize("spelling", ["010", "1_000", "0x10", "yes", "1.5", "nan"])
def test_ambiguous_counts_are_refused(tmp_path: Path, spelling: str) -> None:
    with pytest.raises(Refusal, match="seed"):
        build_config(read_yaml(written(tmp_path, f"seed: {spelling}\n")))


@pytest.mark.parametrize("spelling", ["yes", "on", "1", "True"])
def test_flags_are_true_or_false(tmp_path: Path, spelling: str) -> None:
    with pytest.raises(Refusal, match=r"replicate.*true or false"):
        build_config(read_yaml(written(tmp_path, f"replicate: {spelling}\n")))


@pytest.mark.parametrize(
    ("text", "twins"), [("none", ()), ("[none]", ()), ("shuffled", ("shuffled",))]
)
def test_one_text_is_a_list_of_one_and_none_is_none(
    tmp_path: Path, text: str, twins: tuple[str, ...]
) -> None:
    assert build_config(read_yaml(written(tmp_path, f"twins: {text}\n"))).twins == twins


def test_a_key_that_stands_twice_is_refused_with_its_second_line(tmp_path: Path) -> None:
    file = written(tmp_path, "model: a\nseed: 1\nmodel: b\n")
    with pytest.raises(Refusal, match=r"line 3.*'model' stands twice"):
        read_yaml(file)


def test_unknown_settings_list_the_near_names() -> None:
    with pytest.raises(Refusal, match=r"unknown setting 'feature'.*features"):
        build_config({"feature": 2})


@pytest.mark.parametrize("text", ["", "- a\n", "model: [a\n"])
def test_files_that_are_no_settings_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Refusal, match=r"study\.yaml"):
        read_yaml(written(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"none\.yaml"):
        read_yaml(tmp_path / "none.yaml")


def test_out_of_range_values_say_what_came() -> None:
    with pytest.raises(Refusal, match=r"'condition'.*0\.5"):
        build_config({"condition": 0.5})


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": -1},
        {"seed": 2**64},
        {"contexts": 10**21},
        {"examples": 100_000},
        {"x_scale": 1e300},
    ],
)
def test_values_that_no_machine_can_run_are_refused_at_once(changed: dict[str, float]) -> None:
    with pytest.raises(Refusal, match=next(iter(changed))):
        build_config(changed)


def test_a_config_written_as_yaml_reads_back_the_same(tmp_path: Path) -> None:
    import yaml

    config = build_config({"seed": 7, "noise": 0.25, "twins": ("shuffled",), "revision": "10"})
    file = written(tmp_path, yaml.safe_dump(config.model_dump(mode="json")))
    assert build_config(read_yaml(file)) == config
