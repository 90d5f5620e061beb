"""The wheel installs four top-level names, with templates and built-in models inside."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

from probes.registry import BUILT_IN

ROOT = Path(__file__).parent.parent


def test_wheel_holds_the_four_rooms_and_their_data(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
    subprocess.run([*command, str(tmp_path), str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("hatlens-*.whl")
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"prompts", "probes", "analysis", "hatlens"}
    assert any(name.startswith("analysis/templates/") for name in names)
    for built_in in BUILT_IN.values():
        inside = built_in.folder.relative_to(ROOT).as_posix()
        files = {name.removeprefix(f"{inside}/") for name in names if name.startswith(inside)}
        assert files >= {"config.json", "model.safetensors", "tokenizer.json", "training.json"}
        weights = archive.read(f"{inside}/model.safetensors")
        assert hashlib.sha256(weights).hexdigest() == built_in.sha256
        assert len(weights) < 1e6
    entry = next(name for name in names if name.endswith("entry_points.txt"))
    assert "hatlens = hatlens.cli.app:main" in archive.read(entry).decode()
