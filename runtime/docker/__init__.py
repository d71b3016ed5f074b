"""The runtime `docker`: one container for each conversation.

    docker_runtime    DockerRuntime, the runtime of a conversation
    warm_pool         containers of one home folder: names, spares, removal of abandoned ones
    container_launch  create a container and wait for its server, or reattach to one; the use of a local engine
    container_spec    mounts, limits and hardening of a container. Pure
    container         one container at the engine: its status, and why it ended
    sandbox_folder    the files of one sandbox on the host, and its lock
    engine            connect to the engine, locally or through ssh
    remote_engine     an engine that does not see this machine's files: the workspace is copied there and back
    workspace_copy    packing a workspace, and applying the changes that come back
    tunnel            a socket on this machine that leads to one in a container

A container is disposable: everything lasting is in the workspace and in the sandbox's folder on the host; with a remote
engine, in volumes until it is copied back. So a stopped container is never started again but replaced.
"""
