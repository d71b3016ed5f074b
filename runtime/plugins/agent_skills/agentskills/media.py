"""Sound, pictures and films as text, by a model at OpenAI: there where its key is in the environment.

Source of rules and texts: `openhands/runtime/plugins/agent_skills/file_reader/file_readers.py`. Needs the library
`openai`, films `cv2` too; what is missing, and what goes wrong on the way, is printed.
"""

import base64
import os
from importlib import import_module
from typing import Any

from .file_reader import openai_key

DESCRIBE = "Describe this image as detail as possible."
MAX_FRAMES = 30


def parse_audio(file_path: str, model: str = "whisper-1") -> None:
    """Transcribes the content of an audio file and prints it.

    Args:
        file_path: str: The path to the audio file to transcribe.
        model: str: The audio model to use for transcription. Defaults to 'whisper-1'.
    """
    print(f"[Transcribing audio file from {file_path}]")
    try:
        with open(file_path, "rb") as audio:
            print(_openai().audio.translations.create(model=model, file=audio).text)
    except Exception as error:  # noqa: BLE001  # libraries of others and a network; V0 tells it like this
        print(f"Error transcribing audio file: {error}")


def parse_image(file_path: str, task: str = DESCRIBE) -> None:
    """Parses the content of an image file and prints the description.

    Args:
        file_path: str: The path to the file to open.
        task: str: The task description for the API call. Defaults to 'Describe this image as detail as possible.'.
    """
    print(f"[Reading image file from {file_path}]")
    try:
        with open(file_path, "rb") as image:
            print(_described(image.read(), task))
    except Exception as error:  # noqa: BLE001  # as above
        print(f"Error with the request: {error}")


def parse_video(file_path: str, task: str = DESCRIBE, frame_interval: int = 30) -> None:
    """Parses the content of a video file and prints the description of its frames.

    Args:
        file_path: str: The path to the video file to open.
        task: str: The task description for the API call. Defaults to 'Describe this image as detail as possible.'.
        frame_interval: int: The interval between frames to analyze. Defaults to 30.
    """
    print(f"[Processing video file from {file_path} with frame interval {frame_interval}]")
    try:
        frames = _frames(file_path, frame_interval)
    except ImportError:
        print("ERROR: Films cannot be read here: cv2 is missing. Install it: pip install opencv-python-headless")
        return
    print(f"Totally {len(frames)} would be analyze...\n")
    for number, frame in enumerate(frames, 1):
        print(f"Process the {file_path}, current No. {number * frame_interval} frame...")
        try:
            print(f"Frame {number}'s content: {_described(frame, task)}\n")
        except Exception as error:  # noqa: BLE001  # as above
            print(f"Error with the request: {error}")


def _frames(path: str, interval: int) -> list[bytes]:
    """Every so many frames as JPEG, MAX_FRAMES at most. Raises ImportError."""
    cv2 = import_module("cv2")
    frames: list[bytes] = []
    video, number = cv2.VideoCapture(path), 0
    try:
        while video.isOpened() and len(frames) < MAX_FRAMES:
            is_there, frame = video.read()
            if not is_there:
                break
            if number % max(1, interval) == 0:
                frames.append(cv2.imencode(".jpg", frame)[1].tobytes())
            number += 1
    finally:
        video.release()
    return frames


def _described(image: bytes, task: str) -> str:
    url = f"data:image/jpeg;base64,{base64.b64encode(image).decode()}"
    content = [{"type": "text", "text": task}, {"type": "image_url", "image_url": {"url": url}}]
    answer = _openai().chat.completions.create(
        model=os.environ.get("OPENAI_MODEL", "gpt-4o"),
        messages=[{"role": "user", "content": content}],
        max_tokens=int(os.environ.get("MAX_TOKEN", "500")),
    )
    return str(answer.choices[0].message.content)


def _openai() -> Any:
    """The client. Raises ImportError where the library is missing."""
    base_url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    return import_module("openai").OpenAI(api_key=openai_key(), base_url=base_url)
