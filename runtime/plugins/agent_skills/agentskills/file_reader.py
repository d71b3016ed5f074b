"""PDF, Word, PowerPoint and LaTeX as text; sound, images and videos as text by a model at OpenAI. All is printed.

Source of rules and texts: `openhands/runtime/plugins/agent_skills/file_reader/file_readers.py`. The libraries are those
of the extra `documents`, pylatexenc, `openai`, and `cv2` for videos; a message says which library is missing. The
functions that ask OpenAI exist only if its key is in the environment.
"""

import base64
import os
from importlib import import_module
from typing import Any

DOCUMENTS = "pip install 'handloom[documents]'"


def parse_pdf(file_path: str) -> None:
    """Print the text of a PDF file, page by page.

    Args:
        file_path: The path of the file.
    """
    print(f"[Reading PDF file from {file_path}]")
    if (pdf := _library("pdfminer.high_level", "PDF", DOCUMENTS)) is None:
        return
    with open(file_path, "rb") as file:
        text = pdf.extract_text(file)
    pages = text.split("\f")[:-1] if text.endswith("\f") else text.split("\f")
    print("".join(f"@@ Page {number} @@\n{page}\n\n" for number, page in enumerate(pages, 1)).strip())


def parse_docx(file_path: str) -> None:
    """Print the text of a Word file, paragraph by paragraph.

    Args:
        file_path: The path of the file.
    """
    print(f"[Reading DOCX file from {file_path}]")
    if (docx := _library("docx", "DOCX", DOCUMENTS)) is None:
        return
    paragraphs = docx.Document(file_path).paragraphs
    print("".join(f"@@ Page {number} @@\n{one.text}\n\n" for number, one in enumerate(paragraphs, 1)))


def parse_latex(file_path: str) -> None:
    """Print the text of a LaTeX file without its commands.

    Args:
        file_path: The path of the file.
    """
    print(f"[Reading LaTex file from {file_path}]")
    if (latex := _library("pylatexenc.latex2text", "LaTex", "pip install pylatexenc")) is None:
        return
    with open(file_path, encoding="utf-8", errors="replace") as file:
        print(latex.LatexNodes2Text().latex_to_text(file.read()).strip())


def parse_pptx(file_path: str) -> None:
    """Print the text of a PowerPoint file, slide by slide.

    Args:
        file_path: The path of the file.
    """
    print(f"[Reading PowerPoint file from {file_path}]")
    if (pptx := _library("pptx", "PowerPoint", DOCUMENTS)) is None:
        return
    try:
        text = []
        for number, slide in enumerate(pptx.Presentation(str(file_path)).slides, 1):
            text.append(f"@@ Slide {number} @@")
            text += [shape.text for shape in slide.shapes if hasattr(shape, "text")]
        print("\n".join(text))
    except Exception as error:  # noqa: BLE001  # an untrusted file; V0 prints it like this
        print(f"Error reading PowerPoint file: {error}")


def openai_key() -> str:
    """Return OpenAI's key from the environment, or an empty string."""
    return os.environ.get("OPENAI_API_KEY") or os.environ.get("SANDBOX_ENV_OPENAI_API_KEY", "")


def _library(name: str, kind: str, install: str) -> Any:
    """Import a library; prints an error and returns None if it is missing."""
    try:
        return import_module(name)
    except ImportError:
        print(f"ERROR: {kind} files cannot be read here: {name.partition('.')[0]} is missing. Install it: {install}")
        return None


DESCRIBE = "Describe this image as detail as possible."
MAX_FRAMES = 30


def parse_audio(file_path: str, model: str = "whisper-1") -> None:
    """Print a transcript of an audio file, in English.

    Args:
        file_path: The path of the file.
        model: The model that transcribes.
    """
    print(f"[Transcribing audio file from {file_path}]")
    try:
        with open(file_path, "rb") as audio:
            print(_openai().audio.translations.create(model=model, file=audio).text)
    except Exception as error:  # noqa: BLE001  # boundary to a network; V0 prints it like this
        print(f"Error transcribing audio file: {error}")


def parse_image(file_path: str, task: str = DESCRIBE) -> None:
    """Print a description of an image by a model.

    Args:
        file_path: The path of the file.
        task: What the model is asked.
    """
    print(f"[Reading image file from {file_path}]")
    try:
        with open(file_path, "rb") as image:
            print(_described(image.read(), task))
    except Exception as error:  # noqa: BLE001  # as above
        print(f"Error with the request: {error}")


def parse_video(file_path: str, task: str = DESCRIBE, frame_interval: int = 30) -> None:
    """Print descriptions of frames of a video by a model.

    Args:
        file_path: The path of the file.
        task: What the model is asked about each frame.
        frame_interval: Every how many frames one is described.
    """
    print(f"[Processing video file from {file_path} with frame interval {frame_interval}]")
    try:
        frames = _frames(file_path, frame_interval)
    except ImportError:
        print("ERROR: Videos cannot be read here: cv2 is missing. Install it: pip install opencv-python-headless")
        return
    print(f"Totally {len(frames)} would be analyze...\n")
    for number, frame in enumerate(frames, 1):
        print(f"Process the {file_path}, current No. {number * frame_interval} frame...")
        try:
            print(f"Frame {number}'s content: {_described(frame, task)}\n")
        except Exception as error:  # noqa: BLE001  # as above
            print(f"Error with the request: {error}")


def _frames(path: str, interval: int) -> list[bytes]:
    """Return every `interval`-th frame as JPEG, at most MAX_FRAMES. Raises ImportError."""
    cv2 = import_module("cv2")
    frames: list[bytes] = []
    video, number = cv2.VideoCapture(path), 0
    try:
        while video.isOpened() and len(frames) < MAX_FRAMES:
            has_frame, frame = video.read()
            if not has_frame:
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
    """Return the client. Raises ImportError if the library is missing."""
    base_url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    return import_module("openai").OpenAI(api_key=openai_key(), base_url=base_url)
