"""Which modules are tested here: without torch, not those that import it at their top."""

from importlib.util import find_spec

collect_ignore_glob = (
    [] if find_spec("torch") else ["src/truerank/models/nets/*.py", "tests/ranking/gpu/test_error_bound.py"]
)
