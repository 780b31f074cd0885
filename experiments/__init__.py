"""One module for each figure of the paper that is redrawn: ``python -m experiments.<name>``.

Each uses the public API only, and writes a picture to ``docs/images`` and its numbers to
``experiments/results``.  ``--quick`` makes a small version in a temporary folder, in seconds.
`experiments.command` is what they share, with each other and with the benchmarks, which stand on
the experiments and never the other way round.
"""
