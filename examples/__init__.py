"""Problems told at length, beside the library: ``examples.digits`` and ``examples.hare_lynx``.

They use abctree as any program would.  Run them from the root of a clone.
"""
