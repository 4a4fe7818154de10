"""Types that travel between subjects, plug-ins, errors, random numbers, threads and files."""
