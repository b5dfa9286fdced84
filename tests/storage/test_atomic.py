"""Files that replace others: whole, in the same mode, and at nobody else's cost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import polyadic
from polyadic import KernelMachineRegressor
from polyadic.storage import checkpoint
from polyadic.storage.atomic import remove_leftovers, replacing

X = np.random.RandomState(0).uniform(size=(40, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1]


def machine(**settings):
    return KernelMachineRegressor(n_basis=4, rank=2, max_iter=3, random_state=0, **settings)


def write(path, content=b"new"):
    with replacing(path) as file:
        file.write(content)


def listed(folder):
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("name", ["env", "run", "fit"])
def test_a_finished_fit_removes_its_own_checkpoint_and_nothing_else(name, tmp_path):
    others = [f".{name}.local", f".{name}.swp", f".{name}.polyadic-tmp", f"{name}.two"]
    others.append(f".{name}.0badcafe-{2**22 + 1}-00000000.polyadic-tmp")  # of another machine
    for other in others:
        (tmp_path / other).write_text("precious")
    (tmp_path / f".{name}.d").mkdir()
    machine(checkpoint=tmp_path / name).fit(X, Y)
    assert listed(tmp_path) == sorted([*others, f".{name}.d"])
    assert all((tmp_path / other).read_text() == "precious" for other in others)


def test_checkpoints_of_like_names_do_not_touch_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_FRACTION_OF_TIME", np.inf)  # write at every opportunity
    failures = []

    def fits(name):
        try:
            for _ in range(15):
                machine(checkpoint=tmp_path / name, n_jobs=1).fit(X, Y)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=fits, args=(name,)) for name in ("fit", "fit.two", ".fit")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert listed(tmp_path) == []


def leave_behind(path):
    """Let a process die while it writes."""
    code = "import os, sys; from polyadic.storage.atomic import replacing\n"
    code += "with replacing(sys.argv[1]): os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="whether a process runs is not asked there")
@pytest.mark.parametrize("name", ["fit", "a" * 240, "f[i].*t"])
def test_what_a_process_left_is_removed_when_it_is_gone(name, tmp_path):
    leave_behind(tmp_path / name)
    leave_behind(tmp_path / f"{name}.two")
    assert len(listed(tmp_path)) == 2
    with replacing(tmp_path / name):  # this process is alive
        remove_leftovers(tmp_path / name)
        assert len(listed(tmp_path)) == 2
    assert (tmp_path / name).exists()
    remove_leftovers(tmp_path / name)
    assert len(listed(tmp_path)) == 2  # the new file, and the other's


@pytest.mark.skipif(os.name == "nt", reason="needs the modes of POSIX")
def test_a_file_keeps_its_mode_and_a_new_one_gets_the_usual(tmp_path):
    path = tmp_path / "m"
    path.touch()
    usual = path.stat().st_mode
    for mode in (0o600, 0o640, 0o777):
        path.chmod(mode)
        with replacing(path) as file:
            [temporary] = set(tmp_path.iterdir()) - {path}
            assert not temporary.stat().st_mode & 0o777 & ~mode  # at no moment is it open to more
            file.write(b"new")
        assert path.stat().st_mode & 0o777 == mode
        assert path.read_bytes() == b"new"
    write(tmp_path / "other")
    assert (tmp_path / "other").stat().st_mode == usual


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "v1").write_bytes(b"old")
    link = tmp_path / "latest"
    link.symlink_to("models/v1")
    write(link)
    assert link.is_symlink()
    assert (tmp_path / "models" / "v1").read_bytes() == b"new"
    assert listed(tmp_path / "models") == ["v1"]
    machine(checkpoint=link_to_nothing(tmp_path)).fit(X, Y)
    assert (tmp_path / "later").is_symlink()
    assert listed(tmp_path / "models") == ["v1"]


def link_to_nothing(folder):
    (folder / "later").symlink_to("models/checkpoint")
    return folder / "later"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_is_written_to(tmp_path):
    path, received = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    write(path)
    reader.join()
    assert received == [b"new"]
    assert listed(tmp_path) == ["pipe"]


def test_errors_name_the_path_that_was_given(tmp_path, monkeypatch):
    model = machine().fit(X, Y)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"The folder .*q does not exist.*: 'q/w.polyadic'"):
        polyadic.save(model, "q/w.polyadic")
    os.mkdir("folder")
    with pytest.raises(IsADirectoryError, match=r"It is a folder; name a file in it: 'folder'"):
        polyadic.save(model, "folder")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match=r"'file/w.polyadic'$"):
        polyadic.save(model, "file/w.polyadic")
    assert listed(tmp_path) == ["file", "folder"]


def test_a_full_disk_is_told_with_the_path_that_was_given(tmp_path):
    with (
        pytest.raises(OSError, match=r"No space left on device: '.*w.polyadic'$"),
        replacing(tmp_path / "w.polyadic"),
    ):
        raise OSError(28, "No space left on device")
    with pytest.raises(OSError, match="elsewhere"), replacing(tmp_path / "w.polyadic"):
        raise OSError(2, "No such file", "elsewhere")  # of what the caller does meanwhile
    assert listed(tmp_path) == []
