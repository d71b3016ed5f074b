"""BrowserPlugin: one Chromium that the agent controls and the user can watch.

The action server supervises a worker process, `python -m runtime.plugins.browser.worker`, which owns playwright and
Chromium and exchanges JSON lines over standard input and output. So a page of 100 MB, a crash or a hang never affects
the server: a worker that does not answer in time is killed with all its processes, and the next action starts another.

In the server:

    plugin            BrowserPlugin: the actions, their deadlines, the live view's route; evaluation mode
    worker_client     the worker process: start, requests, frames, end
    observation_text  the text of an observation, in V0's words

In the worker:

    worker            requests and answers, and files that pages offer
    chromium          find and launch Chromium
    tabs              the open pages, dialogs, crashes
    functions         parse the calls of a step and carry out BrowserGym's functions
    page_observation  what is observed after a step: text, tree, screenshots
    extraction        mark the elements and read the accessibility tree; `find` an element by bid
    axtree            the tree: frames merged, truncated, as text
    page_layout       a DOM snapshot: positions and click listeners of the elements, the visible texts and elements
    network_filter    allowed addresses, and the proxy for all of Chromium's traffic
    screencast        screenshots while somebody watches

`evaluation_driver` is the process of a `browsergym/*` environment that replaces the worker.

Follows `openhands/runtime/browser/` of OpenHands V0 and the action grammar of BrowserGym.
"""
