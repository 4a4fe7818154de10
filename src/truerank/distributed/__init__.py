"""The same work cut into tasks for threads, a GPU, Dask or Spark."""
