"""`reactor.v1` without I/O: text messages, the header in media files, and the protocol's constants."""
