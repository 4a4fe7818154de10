"""Which modules are tested here: without torch, not those that import it at their top.

Property tests have no deadline: how long an example takes says how busy the machine is.

Spark sets environment variables while it starts, when threads of other libraries are running in the same
process. A new variable makes the C library move the table of variables, and a thread that is reading the
table may crash the whole process. Variables that are there from the beginning are changed in place.
"""

import os
from importlib.util import find_spec

from hypothesis import settings

for name, value in {
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "PYTHONPATH": "",
}.items():
    os.environ.setdefault(name, value)  # Spark's own defaults

settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")

collect_ignore_glob = (
    [] if find_spec("torch") else ["src/truerank/models/nets/*.py", "tests/ranking/gpu/test_error_bound.py"]
)
