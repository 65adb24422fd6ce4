"""How well recall finds what questions need, measured on data sets of conversations and memories."""
