"""The page in the browser: its files, its WebSocket, and how a person gets in.

- `site.py` answers the requests of the page.
- `static_files.py` has the files in `static/`.
- `login.py` checks the first message of a WebSocket, by `codes.py` and `keys.py`.
- `socket.py` is the WebSocket, which waits for that message.
"""
