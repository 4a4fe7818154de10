"""The catalogue: what lies here, what is downloaded, what is said when it cannot be."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from truerank.core.errors import DataWarning, InvalidData, UnknownName
from truerank.data import catalogue
from truerank.data.catalogue import describe, fetch, find_local, list_datasets, load, open_data
from truerank.data.table import ROLES

LOOKED_INTO = catalogue._folders
CHECKSUM = r"(md5:[0-9a-f]{32}|sha256:[0-9a-f]{64})?"


@pytest.fixture(autouse=True)
def nothing_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty TRUERANK_DATA and no other folder to look into."""
    folder = tmp_path / "local"
    folder.mkdir()
    monkeypatch.setenv("TRUERANK_DATA", str(folder))
    monkeypatch.setattr(catalogue, "_folders", lambda: [folder])
    return folder


def test_entries_are_complete() -> None:
    """Each entry says where it comes from, on which terms, and how to get it."""
    names = [entry.name for entry in list_datasets()]
    wanted = """ml-100k ml-1m ml-20m citeulike-a pinterest-20 yelp book-crossing gowalla lastfm-hetrec
        online-retail-uci beeradvocate goodreads-comics amazon-luxury-beauty amazon-fashion
        amazon-magazine-subscriptions amazon-magazine-svpcf amazon-video-games"""
    assert set(wanted.split()) <= set(names)
    assert len(names) == 42
    for entry in list_datasets():
        assert entry.homepage.startswith("https://") and entry.licence and entry.description
        assert bool(entry.by_hand) != entry.is_automatic
        assert all(file.url.startswith("https://") for file in entry.files)
        assert all(re.fullmatch(CHECKSUM, file.checksum) for file in entry.files)
        assert bool(entry.checksum_source) == any(file.checksum for file in entry.files)
        assert entry.facts()["name"] == entry.name
    assert {entry.name for entry in list_datasets() if not all(file.checksum for file in entry.files)} == {
        *("citeulike-a", "pinterest-20")
    }


def test_fields_have_their_types() -> None:
    """TOML does not check types: counts are integers, texts are texts, columns have known roles."""
    for entry in list_datasets():
        assert all(type(n) is int for n in (entry.n_users, entry.n_items, entry.n_events) if n is not None)
        assert type(entry.min_history) is int and type(entry.min_rating) in (int, float, type(None))
        texts = (entry.description, entry.homepage, entry.licence, entry.citation, entry.by_hand, entry.note)
        assert all(type(text) is str for text in texts)
        assert not any("\n" in text or "  " in text for text in texts)
        assert set(entry.columns) <= set(ROLES) and all(
            isinstance(name, str) for name in entry.columns.values()
        )
        assert all(isinstance(stem, str) for stem in (*entry.local, *entry.partial))
        assert len(entry.files) < 2 or (entry.part_column and all(file.part for file in entry.files))


def test_unknown_name() -> None:
    with pytest.raises(UnknownName, match=r"unknown data set 'ml-1mm'. Did you mean 'ml-1m'\?"):
        describe("ml-1mm")
    with pytest.raises(UnknownName, match=r"unknown data set 'dmeo'. Did you mean 'demo'\?"):
        open_data("dmeo")


def test_local_files_are_used(nothing_local: Path) -> None:
    assert find_local("ml-1m") is None
    (nothing_local / "ml-1m.csv").write_text("user,item\n1,2\n")
    assert find_local("ml-1m") == nothing_local / "ml-1m.csv"
    assert fetch("ml-1m") == [nothing_local / "ml-1m.csv"]
    said: list[str] = []
    assert (len(load("ml-1m", tell=said.append)), load("ml-1m").name) == (1, "ml-1m")
    assert said[0].endswith("user=user, item=item")


def test_original_files_are_understood(nothing_local: Path) -> None:
    """The files of the sources, under the name of the data set."""
    (nothing_local / "ml-100k.data").write_text("196\t242\t3\t881250949\n")
    (nothing_local / "ml-1m.dat").write_text("1::1193::5::978300760\n1::661::3::978302109\n")
    (nothing_local / "citeulike-a.dat").write_text("2 5 6\n1 5\n")
    (nothing_local / "amazon-fashion.csv").write_text("B01,A1,5.0,1400000000\nB02,A1,4.0,1400000001\n")
    (nothing_local / "yelp.json").write_text(
        '{"user_id":"a","business_id":"b","stars":4.0,"date":"2018-07-07 22:09:11"}\n'
    )
    (nothing_local / "book-crossing.csv").write_bytes(
        b'"User-ID";"ISBN";"Book-Rating"\r\n"276725";"034545104X";"0"\r\n'
    )
    with gzip.open(nothing_local / "gowalla.txt.gz", "wt") as file:
        file.write(
            "0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847\n0\t2010-10-18T22:17:43Z\t30.2\t-97.7\t420315\n"
        )
    with gzip.open(nothing_local / "beeradvocate.json.gz", "wt") as file:
        file.write("{'beer/beerId': '47986', 'review/overall': '1.5', 'review/time': '1234817823', ")
        file.write("'review/profileName': 'stcules'}\n")
    with gzip.open(nothing_local / "goodreads-comics.json.gz", "wt") as file:
        for rating in (0, 4):
            file.write(f'{{"user_id":"u","book_id":"{rating}","rating":{rating},')
            file.write('"date_added":"Wed Mar 22 11:37:04 -0700 2017"}\n')
    sizes = {
        name: len(load(name))
        for name in ("ml-100k", "ml-1m", "citeulike-a", "yelp", "gowalla", "book-crossing")
    }
    assert sizes == {"ml-100k": 1, "ml-1m": 2, "citeulike-a": 3, "yelp": 1, "gowalla": 2, "book-crossing": 1}
    fashion = load("amazon-fashion")
    assert (fashion.users.ids.to_list(), fashion.items.ids.to_list()) == (["A1"], ["B01", "B02"])
    assert load("book-crossing").items.ids.to_list() == ["034545104X"]
    beer = load("beeradvocate")
    assert beer.users.ids.to_list() == ["stcules"]
    assert beer.value is not None and beer.value.tolist() == [1.5]
    comics = load("goodreads-comics")
    assert (comics.items.ids.to_list(), comics.origin["events_filtered"]) == (["4"], 1)
    assert comics.time is not None and comics.time.tolist() == [1490207824]


def test_incomplete_copies_warn(nothing_local: Path) -> None:
    (nothing_local / "pinterest-20-first37501users.csv").write_text("user,item\n1,2\n")
    with pytest.warns(DataWarning, match="'pinterest-20' is read from an incomplete copy"):
        assert load("pinterest-20").origin["partial"] == 1


def test_definition_filters_before_merging(nothing_local: Path) -> None:
    (nothing_local / "amazon-magazine-svpcf.csv").write_text("user,item\na,x\na,x\na,y\nb,x\nb,y\n")
    events = load("amazon-magazine-svpcf")
    assert (events.users.ids.to_list(), len(events), events.origin["duplicate_rows"]) == (["a"], 2, 1)


def test_by_hand() -> None:
    with pytest.raises(InvalidData, match=r"'yelp' cannot be downloaded automatically: accept the terms"):
        fetch("yelp")


@pytest.mark.slow
def test_open_data(tmp_path: Path, nothing_local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An existing path wins over a name, a name over nothing."""
    monkeypatch.chdir(tmp_path)
    (nothing_local / "ml-1m.csv").write_text("user,item\n1,2\n")
    assert len(open_data("ml-1m")) == 1
    Path("ml-1m").write_text("user,item\n1,2\n3,4\n")
    assert len(open_data("ml-1m")) == 2
    assert open_data("demo").name == "demo"
    with pytest.raises(InvalidData, match=r"there is no file 'none.csv'"):
        open_data("none.csv")
    with pytest.raises(InvalidData, match="is a folder"):
        open_data(nothing_local)


def test_the_folder_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUERANK_DATA", "/nowhere/at/all")
    with pytest.raises(InvalidData, match="TRUERANK_DATA must be a folder, but '/nowhere/at/all' is none"):
        LOOKED_INTO()


def test_folders_beside_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared" / "data").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    monkeypatch.delenv("TRUERANK_DATA")
    monkeypatch.chdir(tmp_path / "project")
    assert LOOKED_INTO()[0] == Path("..") / "shared" / "data"
