"""BrowserPlugin: one Chromium that the agent drives and the user can watch.

The server supervises one worker process, `python -m runtime.plugins.browser`, which owns playwright and Chromium and
speaks JSON lines over its standard input and output. So a page of 100 MB, a crash or a hang never reaches the server:
what does not answer in time is killed with everything below it, and the next action starts another.

In the server:

    plugin      the actions, their deadlines
    stream      who watches the page, and the live view's route
    link        the worker process: start, requests, frames, end
    family      which processes belong to a worker, and their end
    text        what the agent reads of a page, in V0's words
    evaluation  a `browsergym/*` environment in the worker's place; `evaluation_driver` is its process, without ours

In the worker:

    worker      requests in, answers and pictures out
    chromium    which browser, with which flags
    tabs        the open pages, and what happens on them by itself
    calls       the text of a step as calls, never executed
    functions   BrowserGym's functions
    observing   what is seen of a page after a step
    extraction  the accessibility tree with bids, and what is known of each element; `find` by bid
    marking     the bids of all frames, given by marking.js
    axtree      the tree: frames merged, cut to size, as text
    snapshot    what the snapshot of the document tells of each element
    marks       the picture with the elements' marks
    addresses   which addresses a page may have
    gate        the proxy that all of Chromium's traffic goes through
    downloads   files that pages hand out
    screencast  pictures while somebody watches

Follows `openhands/runtime/browser/` of OpenHands V0 and the action grammar of BrowserGym.
"""
