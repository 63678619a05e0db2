"""The entry point that NeMo Gym starts; copy this folder into the `resources_servers/` of a checkout."""

from kcurate.integrations.nemo_gym import KernelResourcesServer

if __name__ == "__main__":
    KernelResourcesServer.run_webserver()
