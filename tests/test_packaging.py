"""The wheel installs four top-level names, with the report's templates inside."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_wheel_holds_the_four_rooms_and_their_data(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
    subprocess.run([*command, str(tmp_path), str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("hatlens-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"prompts", "probes", "analysis", "hatlens"}
    assert any(name.startswith("analysis/templates/") for name in names)
    entry = next(name for name in names if name.endswith("entry_points.txt"))
    assert "hatlens = hatlens.cli.app:main" in zipfile.ZipFile(wheel).read(entry).decode()
