"""What drives codecs: descriptors, processes, deadlines. The only place that starts a process."""
