"""`reactor.v1` without any I/O: the text messages, the segment inside media files, the numbers both sides agree on."""
