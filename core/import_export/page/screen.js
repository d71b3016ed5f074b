"use strict";
/* The terminal as text: colours, carriage return, backspace and erased lines are followed, all else is dropped.
   One line is open at a time; lines that scrolled out of KEEP are forgotten. Knows nothing of the replay. */
class Screen {
  static KEEP = 400;
  static ESCAPE = /\x1b(?:\[([0-9;:?<=>!]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[()*+#%][ -~]|[ -/]*[0-Z\\^-~])/y;

  constructor(element) {
    this.element = element;
    this.clear();
  }

  clear() {
    this.lines = [[]];
    this.column = 0;
    this.style = {};
    this.rest = "";
  }

  write(text) {
    text = this.rest + text;
    this.rest = "";
    for (let at = 0; at < text.length; ) {
      const code = text.charCodeAt(at);
      if (code === 27) {
        Screen.ESCAPE.lastIndex = at;
        const found = Screen.ESCAPE.exec(text);
        if (found) {
          if (found[2] === "m") this.colour(found[1]);
          else if (found[2] === "K") this.erase(Number(found[1]) || 0);
          at += found[0].length;
        } else if (text.length - at < 4096) {
          this.rest = text.slice(at); // cut off between two pieces
          return;
        } else at += 1;
        continue;
      }
      const size = code >= 0xd800 && code < 0xdc00 ? 2 : 1;
      this.put(text.slice(at, at + size), code);
      at += size;
    }
  }

  put(character, code) {
    const line = this.lines[this.lines.length - 1];
    if (code === 10) {
      this.lines.push([]);
      this.column = 0;
      if (this.lines.length > Screen.KEEP) this.lines.shift();
    } else if (code === 13) this.column = 0;
    else if (code === 8) this.column = Math.max(0, this.column - 1);
    else if (code === 9) this.column += 8 - (this.column % 8);
    else if (code >= 32 && code !== 127) {
      while (line.length < this.column) line.push([" ", {}]);
      line[this.column] = [character, this.style];
      this.column += 1;
    }
  }

  erase(part) {
    const line = this.lines[this.lines.length - 1];
    if (part === 0) line.length = Math.min(line.length, this.column);
    else if (part === 2) line.length = 0;
    else for (let i = 0; i < Math.min(this.column, line.length); i++) line[i] = [" ", {}];
  }

  colour(parameters) {
    const codes = parameters.replaceAll(":", ";").split(";").map(Number);
    const style = { ...this.style };
    for (let i = 0; i < codes.length; i++) {
      const code = codes[i];
      if (code === 0) for (const name of Object.keys(style)) delete style[name];
      else if (code === 1) style.bold = true;
      else if (code === 2) style.dim = true;
      else if (code === 3) style.italic = true;
      else if (code === 4) style.underline = true;
      else if (code === 7) style.inverse = true;
      else if (code === 22) style.bold = style.dim = false;
      else if (code === 23) style.italic = false;
      else if (code === 24) style.underline = false;
      else if (code === 27) style.inverse = false;
      else if (code === 39) delete style.fore;
      else if (code === 49) delete style.back;
      else if (code >= 30 && code <= 37) style.fore = code - 30;
      else if (code >= 90 && code <= 97) style.fore = code - 82;
      else if (code >= 40 && code <= 47) style.back = code - 40;
      else if (code >= 100 && code <= 107) style.back = code - 92;
      else if (code === 38 || code === 48) {
        const place = code === 38 ? "fore" : "back";
        if (codes[i + 1] === 5) {
          style[place] = Screen.ofTable(codes[i + 2]);
          i += 2;
        } else if (codes[i + 1] === 2) {
          style[place] = Screen.ofParts(codes.slice(i + 2, i + 5));
          i += 4;
        }
      }
    }
    this.style = style;
  }

  static ofParts(parts) {
    return `rgb(${parts.map((part) => Math.min(255, Math.max(0, part | 0))).join(" ")})`;
  }

  static ofTable(number) {
    if (!(number >= 16)) return (number | 0) & 15;
    if (number >= 232) return Screen.ofParts(Array(3).fill((number - 232) * 10 + 8));
    const levels = [0, 95, 135, 175, 215, 255];
    const n = (number - 16) % 216;
    return Screen.ofParts([levels[Math.floor(n / 36)], levels[Math.floor(n / 6) % 6], levels[n % 6]]);
  }

  draw() {
    const page = document.createDocumentFragment();
    this.lines.forEach((line, number) => {
      if (number) page.append("\n");
      for (let start = 0, end; start < line.length; start = end) {
        const style = line[start][1];
        for (end = start + 1; end < line.length && line[end][1] === style; ) end++;
        page.append(this.run(line.slice(start, end).map((cell) => cell[0]).join(""), style));
      }
    });
    this.element.replaceChildren(page);
    this.element.scrollTop = this.element.scrollHeight;
  }

  run(text, style) {
    const run = document.createElement("span");
    run.textContent = text;
    for (const name of ["bold", "dim", "italic", "underline", "inverse"]) if (style[name]) run.classList.add(name);
    for (const [place, property, letter] of [["fore", "color", "f"], ["back", "backgroundColor", "b"]]) {
      if (typeof style[place] === "number") run.classList.add(letter + style[place]);
      else if (style[place]) run.style[property] = style[place];
    }
    return run;
  }
}
