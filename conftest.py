"""Which modules are tested here: without torch, not those that import it at their top.

Property tests have no deadline: how long an example takes says how busy the machine is.
"""

from importlib.util import find_spec

from hypothesis import settings

settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")

collect_ignore_glob = (
    [] if find_spec("torch") else ["src/truerank/models/nets/*.py", "tests/ranking/gpu/test_error_bound.py"]
)
