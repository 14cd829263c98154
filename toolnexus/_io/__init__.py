"""Everything that waits: the network, threads, tasks, sleeping. Twin files differ as the two worlds differ."""
