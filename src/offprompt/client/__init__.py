"""The client: a memory that a server keeps, with the library's own interface. Needs the extra `client`."""
