"""What the catalogue knows about a public data set.

The data sets of the catalogue.

Checksums: those of MovieLens are published by GroupLens beside the archives; those of Last.fm and Gowalla
are stated alike by several independent projects. No other source publishes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RemoteFile:
    """One file to download.

    Parameters
    ----------
    url : where it lies
    checksum : ``md5:...`` or ``sha256:...`` as the source or several independent users state it; may be empty
    member : the file to take out of a zip archive
    part : the label of its events, for data sets that come as several files
    """

    url: str
    checksum: str = ""
    member: str = ""
    part: str = ""


@dataclass(frozen=True)
class Dataset:
    """One entry of the catalogue.

    Parameters
    ----------
    name : how it is called on the command line
    description : one line
    n_users, n_items, n_events : as published; None where the source does not say
    homepage, licence, citation : where it comes from and on which terms
    files : what to download; empty if that must be done by hand
    by_hand : what to do by hand
    format, encoding, columns : how to read the downloaded files where the reader cannot see it
    part_column : the label column for the part each file stands for
    min_history, min_rating : filters that belong to the definition of the data set
    local, partial : further file names (without suffix) of whole and of incomplete copies
    note : what to know when comparing with papers
    """

    name: str
    description: str
    homepage: str
    licence: str
    n_users: int | None = None
    n_items: int | None = None
    n_events: int | None = None
    citation: str = ""
    files: tuple[RemoteFile, ...] = ()
    by_hand: str = ""
    format: str | None = None
    encoding: str = "utf8"
    columns: Mapping[str, str] = field(default_factory=dict)
    part_column: str = ""
    min_history: int = 0
    min_rating: float | None = None
    local: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    note: str = ""

    @property
    def is_automatic(self) -> bool:
        """Whether ``fetch`` can download it."""
        return bool(self.files)

    def facts(self) -> dict[str, str | int | None]:
        """Return what ``truerank data describe`` shows."""
        return {
            "name": self.name,
            "description": self.description,
            "users": self.n_users,
            "items": self.n_items,
            "events": self.n_events,
            "homepage": self.homepage,
            "licence": self.licence,
            "citation": self.citation,
            "download": ", ".join(file.url for file in self.files) or "by hand",
            "checksum": ", ".join(file.checksum for file in self.files if file.checksum) or "not published",
            "by hand": self.by_hand,
            "note": self.note,
        }


_GROUPLENS = (
    "GroupLens terms of use: free for research with citation, no commercial use and no redistribution "
    "without permission"
)
_MOVIELENS = "Harper & Konstan, The MovieLens Datasets, ACM TiiS 2015"
_NCF = "https://raw.githubusercontent.com/hexiangnan/neural_collaborative_filtering/master/Data"
_AMAZON = "https://mcauleylab.ucsd.edu/public_datasets/data/amazon_v2/categoryFilesSmall"
_UCSD = "no open licence; offered by UCSD for academic research with citation; not redistributable"

_GENERAL = (
    Dataset(
        name="ml-100k",
        description="MovieLens 100K: film ratings with times",
        n_users=943,
        n_items=1_682,
        n_events=100_000,
        homepage="https://grouplens.org/datasets/movielens/100k/",
        licence=_GROUPLENS,
        citation=_MOVIELENS,
        files=(
            RemoteFile(
                "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
                checksum="md5:0e33842e24a9c977be4e0107933c0723",
                member="ml-100k/u.data",
            ),
        ),
    ),
    Dataset(
        name="ml-1m",
        description="MovieLens 1M: film ratings with times",
        n_users=6_040,
        n_items=3_706,
        n_events=1_000_209,
        homepage="https://grouplens.org/datasets/movielens/1m/",
        licence=_GROUPLENS,
        citation=_MOVIELENS,
        files=(
            RemoteFile(
                "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
                checksum="md5:c4d9eecfca2ab87c1945afe126590906",
                member="ml-1m/ratings.dat",
            ),
        ),
        note="a copy with a column ncf_split holds the split of He et al. 2017: "
        "--split 'column(name=ncf_split)'",
    ),
    Dataset(
        name="ml-20m",
        description="MovieLens 20M: film ratings with times",
        n_users=138_493,
        n_items=26_744,
        n_events=20_000_263,
        homepage="https://grouplens.org/datasets/movielens/20m/",
        licence=_GROUPLENS,
        citation=_MOVIELENS,
        files=(
            RemoteFile(
                "https://files.grouplens.org/datasets/movielens/ml-20m.zip",
                checksum="md5:cd245b17a1ae2cc31bb14903e1204af3",
                member="ml-20m/ratings.csv",
            ),
        ),
        note="Li et al. 2023 use 9,990,682 events of 136,677 users with 20,720 items of it",
    ),
    Dataset(
        name="citeulike-a",
        description="CiteULike: articles in users' libraries, no times",
        n_users=5_551,
        n_items=16_980,
        n_events=204_986,
        homepage="https://github.com/js05212/citeulike-a",
        licence="none stated beyond a request to cite; research use",
        citation="Wang, Chen & Li, IJCAI 2013",
        files=(RemoteFile("https://raw.githubusercontent.com/js05212/citeulike-a/master/users.dat"),),
        format="lists",
    ),
    Dataset(
        name="pinterest-20",
        description="Pinterest: pins of users with at least 20, as prepared for NCF, with its split",
        n_users=55_187,
        n_items=9_916,
        n_events=1_500_809,
        homepage="https://github.com/hexiangnan/neural_collaborative_filtering",
        licence="none stated; crawled from Pinterest; research use only",
        citation="Geng et al., ICCV 2015; He et al., WWW 2017",
        files=(
            RemoteFile(f"{_NCF}/pinterest-20.train.rating", part="train"),
            RemoteFile(f"{_NCF}/pinterest-20.test.rating", part="test"),
        ),
        columns={"user": "1", "item": "2", "rating": "", "timestamp": ""},
        part_column="ncf_split",
        partial=("pinterest-20-first37501users",),
        note="all times in the source are 0; 1,463,581 of the rows are distinct pairs in Li et al. 2020",
    ),
    Dataset(
        name="yelp",
        description="Yelp: reviews of businesses with stars and dates",
        homepage="https://business.yelp.com/data/resources/open-dataset/",
        licence="Yelp dataset terms of use: academic use only, to be accepted on the page",
        by_hand="accept the terms at https://business.yelp.com/data/resources/open-dataset/, unpack "
        "yelp_academic_dataset_review.json and put it as yelp.json into the folder $TRUERANK_DATA",
        note="the yelp of Li et al. 2020 and 2023 (25,677 users, 25,815 items, 696,865 pairs) is an older "
        "edition as prepared by He et al., SIGIR 2016; the page offers the current one",
    ),
    Dataset(
        name="book-crossing",
        description="Book-Crossing: book ratings 1 to 10, and 0 for books only read; no times",
        n_users=105_283,
        n_items=340_556,
        n_events=1_149_780,
        homepage="http://www2.informatik.uni-freiburg.de/~cziegler/BX/",
        licence="freely available for research use when acknowledged",
        citation="Ziegler et al., WWW 2005",
        files=(
            RemoteFile(
                "http://www2.informatik.uni-freiburg.de/~cziegler/BX/BX-CSV-Dump.zip",
                member="BX-Book-Ratings.csv",
            ),
        ),
        encoding="utf8-lossy",
        note="433,671 ratings are explicit (--min-rating 1); Li et al. 2020 use 786,690 events of it",
    ),
    Dataset(
        name="gowalla",
        description="Gowalla: check-ins of users at places, with times",
        n_users=107_092,
        n_items=1_280_969,
        n_events=6_442_892,
        homepage="https://snap.stanford.edu/data/loc-gowalla.html",
        licence="none stated; offered by Stanford SNAP for research with citation",
        citation="Cho, Myers & Leskovec, KDD 2011",
        files=(
            RemoteFile(
                "https://snap.stanford.edu/data/loc-gowalla_totalCheckins.txt.gz",
                checksum="sha256:c1c3e19effba649b6c89aeab3c1f9459fad88cfdc2b460fc70fd54e295d83ea0",
            ),
        ),
        format="dat",
        columns={"user": "1", "timestamp": "2", "item": "5", "rating": ""},
    ),
    Dataset(
        name="lastfm-hetrec",
        description="Last.fm (HetRec 2011): how often users listened to artists, no times",
        n_users=1_892,
        n_items=17_632,
        n_events=92_834,
        homepage="https://grouplens.org/datasets/hetrec-2011/",
        licence="non-commercial use, with citation",
        citation="Cantador, Brusilovsky & Kuflik, HetRec 2011",
        files=(
            RemoteFile(
                "https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip",
                checksum="sha256:6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
                member="user_artists.dat",
            ),
        ),
    ),
    Dataset(
        name="online-retail-uci",
        description="UCI Online Retail: purchases of customers with quantities and times",
        n_users=4_339,
        n_items=3_665,
        n_events=397_924,
        homepage="https://archive.ics.uci.edu/dataset/352/online+retail",
        licence="CC BY 4.0",
        citation="Chen, UCI Machine Learning Repository 2015, doi 10.24432/C5BW33",
        by_hand="download https://archive.ics.uci.edu/static/public/352/online+retail.zip, save the columns "
        "CustomerID, StockCode, Quantity and InvoiceDate of the workbook, without cancelled lines and lines "
        "without customer, as online-retail-uci.csv into the folder $TRUERANK_DATA",
        note="sizes without cancelled lines and lines without customer",
    ),
    Dataset(
        name="beeradvocate",
        description="BeerAdvocate: beer reviews with overall ratings and times",
        n_events=1_586_259,
        homepage="https://mcauleylab.ucsd.edu/public_datasets/data/beer/",
        licence=_UCSD,
        citation="McAuley, Leskovec & Jurafsky, ICDM 2012",
        files=(RemoteFile("https://mcauleylab.ucsd.edu/public_datasets/data/beer/beeradvocate.json.gz"),),
        format="dicts",
        columns={
            "user": "review/profileName",
            "item": "beer/beerId",
            "rating": "review/overall",
            "timestamp": "review/time",
        },
        note="users with at least 3 events (--min-history 3) in Sachdeva et al. 2022: about 1.51 M events of "
        "18.6 k users with 64.3 k items",
    ),
    Dataset(
        name="goodreads-comics",
        description="Goodreads: ratings of comics and graphic novels with times",
        n_items=89_411,
        n_events=7_347_630,
        homepage="https://cseweb.ucsd.edu/~jmcauley/datasets/goodreads.html",
        licence=_UCSD,
        citation="Wan & McAuley, RecSys 2018",
        files=(
            RemoteFile(
                "https://mcauleylab.ucsd.edu/public_datasets/gdrive/goodreads/byGenre/"
                "goodreads_interactions_comics_graphic.json.gz"
            ),
        ),
        format="json",
        columns={"user": "user_id", "item": "book_id", "rating": "rating", "timestamp": "date_added"},
        min_rating=1,
        note="shelved but unrated books (rating 0) are left out; users with at least 3 events in "
        "Sachdeva et al. 2022: about 4.37 M events of 133 k users with 89 k items",
    ),
)

#: Categories of the Amazon reviews of 2018 with their numbers of ratings.
AMAZON_CATEGORIES = {
    "AMAZON_FASHION": 883_636,
    "All_Beauty": 371_345,
    "Appliances": 602_777,
    "Arts_Crafts_and_Sewing": 2_875_917,
    "Automotive": 7_990_166,
    "Books": 51_311_621,
    "CDs_and_Vinyl": 4_543_369,
    "Cell_Phones_and_Accessories": 10_063_255,
    "Clothing_Shoes_and_Jewelry": 32_292_099,
    "Digital_Music": 1_584_082,
    "Electronics": 20_994_353,
    "Gift_Cards": 147_194,
    "Grocery_and_Gourmet_Food": 5_074_160,
    "Home_and_Kitchen": 21_928_568,
    "Industrial_and_Scientific": 1_758_333,
    "Kindle_Store": 5_722_988,
    "Luxury_Beauty": 574_628,
    "Magazine_Subscriptions": 89_689,
    "Movies_and_TV": 8_765_568,
    "Musical_Instruments": 1_512_530,
    "Office_Products": 5_581_313,
    "Patio_Lawn_and_Garden": 5_236_058,
    "Pet_Supplies": 6_542_483,
    "Prime_Pantry": 471_614,
    "Software": 459_436,
    "Sports_and_Outdoors": 12_980_837,
    "Tools_and_Home_Improvement": 9_015_203,
    "Toys_and_Games": 8_201_231,
    "Video_Games": 2_565_349,
}

_SVP = "users with at least 3 events (--min-history 3) in Sachdeva et al. 2022: about"
_AMAZON_NOTES = {
    "Magazine_Subscriptions": f"{_SVP} 12.7 k events of 3.1 k users with 1.3 k items",
    "Luxury_Beauty": f"{_SVP} 126 k events of 29.7 k users with 8.4 k items",
    "Video_Games": f"{_SVP} 973 k events of 181 k users with 55.3 k items",
}


def _amazon(category: str, *, name: str = "", **changes: object) -> Dataset:
    entry: dict[str, object] = {
        "name": name or "amazon-" + category.lower().removeprefix("amazon_").replace("_", "-"),
        "description": f"Amazon reviews 2018, {category.replace('_', ' ')}: ratings with times",
        "n_events": AMAZON_CATEGORIES[category],
        "homepage": "https://cseweb.ucsd.edu/~jmcauley/datasets/amazon_v2/",
        "licence": _UCSD,
        "citation": "Ni, Li & McAuley, EMNLP 2019",
        "files": (RemoteFile(f"{_AMAZON}/{category}.csv"),),
        "columns": {"item": "1", "user": "2", "rating": "3", "timestamp": "4"},
        "note": _AMAZON_NOTES.get(category, ""),
        "local": ("amazon-magazine-raw",) if category == "Magazine_Subscriptions" else (),
    }
    return Dataset(**{**entry, **changes})  # type: ignore[arg-type]


_SVPCF = _amazon(
    "Magazine_Subscriptions",
    name="amazon-magazine-svpcf",
    description="Amazon Magazine Subscriptions as in SVP-CF: users with at least 3 events",
    n_users=3_092,
    n_items=1_305,
    n_events=12_689,
    citation="Ni, Li & McAuley, EMNLP 2019; Sachdeva, Wu & McAuley, WSDM 2022",
    min_history=3,
    local=(),
    note="events are counted before repeated pairs are merged",
)

DATASETS: dict[str, Dataset] = {
    entry.name: entry for entry in (*_GENERAL, *map(_amazon, AMAZON_CATEGORIES), _SVPCF)
}
