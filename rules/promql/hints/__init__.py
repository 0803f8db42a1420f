"""What to write instead, where the parser meets a token that it did not expect.

Every function reads the tokens around the cursor and gives the text of a hint, "" for none.
"""
