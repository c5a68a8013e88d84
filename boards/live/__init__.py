"""Sockets: who may open one, the fan-out, and what goes over it. The only package beside `asgi.py` that uses Channels.

`consumer` is a page's socket, `hub` the one fan-out of the process, `reading` its look into the database,
`rendering` the messages. The pages' side is `static/js/live*.js`.
"""
