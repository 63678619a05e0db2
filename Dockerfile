# Runs the demo on the emulator: docker build -t kcurate . && docker run --rm kcurate
# No image was built where kcurate is developed; tests/test_dockerfile.py runs the RUN lines and the CMD.
FROM python:3.12-slim
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
ENV PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/kcurate
RUN /opt/kcurate/bin/pip install --require-hashes --requirement requirements.txt
RUN /opt/kcurate/bin/pip install --no-deps .
ENV HOME=/tmp
USER 1000:1000
WORKDIR /tmp
CMD ["/opt/kcurate/bin/kcurate", "demo"]
