"""The runtime `docker`: a container for each conversation.

    runtime         DockerRuntime, which a conversation talks to
    fleet           what all containers of one home share: the engine, the locks, what was left behind, the warm pool
    launching       a container made, started, and its server answering; or found again
    reach           what differs by where the engine is: near, or far
    near            an engine of this machine: folders are mounted
    far             an engine elsewhere: the workspace is copied there and back, the link may break
    carrying        what goes there
    bringing        what comes back
    passage         a socket here that leads to one in a container; dialing makes its connections
    container       one container at the engine: its state, and why it is gone
    specification   how a container is made: mounts, limits, hardening. Pure
    folder          what the host keeps of one sandbox, and who holds it

A container is disposable: what has to last lies in the workspace and in the sandbox's folder, on the host; with an
engine elsewhere, in volumes until it is here. So a container that stopped is never started again; it is replaced.
"""
