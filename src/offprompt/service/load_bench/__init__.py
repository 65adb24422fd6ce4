"""What a store costs under load: many users, few of them with most of the memories, reading and writing at once."""
