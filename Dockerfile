# The image that TIRA executes. Build: docker build -t aragorn .
FROM python:3.11-slim
WORKDIR /aragorn
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt
COPY run.sh ./
COPY submission submission
COPY checkpoints checkpoints
RUN chmod +x run.sh
# Arguments after the image's name are flags of run.sh; TIRA replaces the whole command: /aragorn/run.sh -i $inputDataset -o $outputDir
ENTRYPOINT ["/aragorn/run.sh"]
