"""Our figures beside their bars, on a workload that is made here. Run as ``python -m benchmarks`` (``make bench``)."""
