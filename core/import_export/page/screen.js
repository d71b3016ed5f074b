"use strict";
/* A terminal of 120 by 30, as the agent's is: what it shows after the text that it got, with the lines that scrolled
   out of it. A program that takes the whole screen, such as vi, is shown until it is left. What is not known is
   dropped. Knows nothing of the replay. */
class Screen {
  static ROWS = 30;
  static COLUMNS = 120;
  static KEEP = 400; // lines that scrolled out
  static MARKS = 4; // combining marks of one cell
  static ESCAPE = /\x1b(?:\[([0-9;:?<=>!]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|([()*+#%][ -~])|[ -/]*([0-Z\\^-~]))/y;
  static MARK = /^[\p{M}\u200d]/u;
  static WIDE = /^[\p{Emoji_Presentation}\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u;
  static FRAMES = "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"; // from "`" on, in the character set for frames
  static PLAIN = {};

  constructor(element) {
    this.element = element;
    this.clear();
  }

  clear() {
    this.scrolled = [];
    this.rest = "";
    this.other = null; // the screen behind one that a program has taken whole
    this.reset();
  }

  reset() {
    this.lines = this.blank(Screen.ROWS);
    this.row = this.column = 0; // COLUMNS after the last one: the next character begins another line
    [this.top, this.bottom] = [0, Screen.ROWS - 1];
    this.style = Screen.PLAIN;
    this.drawsFrames = false;
    this.saved = null;
  }

  blank(count) {
    return Array.from({ length: count }, () => []);
  }

  write(text) {
    text = this.rest + text;
    this.rest = "";
    for (let at = 0; at < text.length; ) {
      const code = text.codePointAt(at);
      if (code === 27) {
        Screen.ESCAPE.lastIndex = at;
        const found = Screen.ESCAPE.exec(text);
        if (found) {
          if (found[2]) this.control(found[2], found[1]);
          else if (found[3]) this.drawsFrames = found[3] === "(0" || (this.drawsFrames && found[3][0] !== "(");
          else if (found[4]) this.escape(found[4]);
          at += found[0].length;
        } else if (text.length - at < 4096) {
          this.rest = text.slice(at); // cut off between two pieces
          return;
        } else at += 1;
        continue;
      }
      const character = String.fromCodePoint(code);
      this.put(character, code);
      at += character.length;
    }
  }

  put(character, code) {
    if (code >= 10 && code <= 12) this.feed();
    else if (code === 13) this.column = 0;
    else if (code === 8) this.column = Math.max(0, Math.min(this.column, Screen.COLUMNS - 1) - 1);
    else if (code === 9) this.column = Math.min(Screen.COLUMNS - 1, this.column + 8 - (this.column % 8));
    else if (code >= 32 && (code < 127 || code >= 160)) this.show(character);
  }

  show(character) {
    if (Screen.MARK.test(character)) {
      const line = this.lines[this.row];
      const cell = line[this.column - 1]?.[0] ? line[this.column - 1] : line[this.column - 2]; // or of two columns
      if (cell && cell[0].length <= Screen.MARKS) cell[0] += character;
      return;
    }
    if (this.drawsFrames) character = Screen.FRAMES[character.charCodeAt(0) - 96] ?? character;
    const width = Screen.WIDE.test(character) ? 2 : 1;
    if (this.column + width > Screen.COLUMNS) {
      this.lines[this.row].goesOn = true;
      this.column = 0;
      this.feed();
    }
    this.last = character;
    this.fill(this.row, this.column);
    const line = this.lines[this.row];
    line[this.column] = [character, this.style];
    if (width === 2) line[this.column + 1] = ["", this.style];
    this.column += width;
  }

  /* Make a line reach a column, so that what stands there can be changed. */
  fill(row, column) {
    for (const line = this.lines[row]; line.length < column; ) line.push(this.space());
  }

  /* An empty cell: of the style only the background counts. */
  space() {
    return [" ", this.style.back === undefined ? Screen.PLAIN : { back: this.style.back }];
  }

  /* Go to the next line, and scroll below the last one. */
  feed() {
    if (this.row === this.bottom) this.scroll(1);
    else this.row = Math.min(this.row + 1, Screen.ROWS - 1);
  }

  /* Move the lines between the margins up, or down if `count` is negative. */
  scroll(count, top = this.top) {
    const size = Math.min(Math.abs(count), this.bottom - top + 1);
    if (count > 0) {
      const gone = this.lines.splice(top, size);
      this.lines.splice(this.bottom - size + 1, 0, ...this.blank(size));
      if (top === 0 && !this.other) this.scrolled = this.scrolled.concat(gone).slice(-Screen.KEEP);
    } else {
      this.lines.splice(this.bottom - size + 1, size);
      this.lines.splice(top, 0, ...this.blank(size));
    }
  }

  escape(letter) {
    if (letter === "7") this.save();
    else if (letter === "8") this.restore();
    else if (letter === "D") this.feed();
    else if (letter === "E") {
      this.feed();
      this.column = 0;
    } else if (letter === "M") {
      if (this.row === this.top) this.scroll(-1);
      else this.row = Math.max(0, this.row - 1);
    } else if (letter === "c") this.reset();
  }

  save() {
    this.saved = { row: this.row, column: this.column, style: this.style };
  }

  restore() {
    const { row, column, style } = this.saved ?? { row: 0, column: 0, style: Screen.PLAIN };
    [this.row, this.column, this.style] = [row, column, style];
  }

  move(row, column) {
    this.row = Math.max(0, Math.min(row, Screen.ROWS - 1));
    this.column = Math.max(0, Math.min(column, Screen.COLUMNS - 1));
  }

  control(letter, parameters) {
    if (letter === "m" && !/^[<=>?!]/.test(parameters)) return this.colour(parameters);
    if (letter === "h" || letter === "l") return this.mode(letter === "h", parameters);
    if (/[<=>?!]/.test(parameters)) return undefined;
    const [first, second] = parameters.split(";").map(Number);
    const count = Math.max(1, Math.min(first || 1, Screen.COLUMNS * Screen.ROWS));
    const line = this.lines[this.row];
    const inside = this.row >= this.top && this.row <= this.bottom;
    switch (letter) {
      case "A": return this.move(Math.max(this.row - count, this.row >= this.top ? this.top : 0), this.column);
      case "B": case "e":
        return this.move(Math.min(this.row + count, this.row <= this.bottom ? this.bottom : Screen.ROWS), this.column);
      case "C": case "a": return this.move(this.row, this.column + count);
      case "D": return this.move(this.row, Math.min(this.column, Screen.COLUMNS - 1) - count);
      case "E": return this.move(this.row + count, 0);
      case "F": return this.move(this.row - count, 0);
      case "G": case "`": return this.move(this.row, count - 1);
      case "d": return this.move(count - 1, this.column);
      case "H": case "f": return this.move(count - 1, (second || 1) - 1);
      case "J": return this.erase(first || 0);
      case "K": return this.eraseLine(first || 0);
      case "L": return inside && this.scroll(-count, this.row);
      case "M": return inside && this.scrollOff(count);
      case "P": return line.splice(this.column, count);
      case "@":
        this.fill(this.row, this.column);
        line.splice(this.column, 0, ...Array.from({ length: Math.min(count, Screen.COLUMNS) }, () => this.space()));
        line.length = Math.min(line.length, Screen.COLUMNS);
        return undefined;
      case "X":
        this.fill(this.row, Math.min(this.column + count, Screen.COLUMNS));
        for (let i = this.column; i < Math.min(this.column + count, Screen.COLUMNS); i++) line[i] = this.space();
        return undefined;
      case "S": return this.scroll(count);
      case "T": return this.scroll(-count);
      case "b":
        for (let i = 0; this.last && i < count; i++) this.show(this.last);
        return undefined;
      case "r": {
        const [top, bottom] = [count - 1, Math.min(second || Screen.ROWS, Screen.ROWS) - 1];
        if (top < bottom) [this.top, this.bottom] = [top, bottom];
        return this.move(0, 0);
      }
      case "s": return this.save();
      case "u": return this.restore();
    }
  }

  /* Delete lines: they are gone, not scrolled out. */
  scrollOff(count) {
    const size = Math.min(count, this.bottom - this.row + 1);
    this.lines.splice(this.row, size);
    this.lines.splice(this.bottom - size + 1, 0, ...this.blank(size));
  }

  mode(isOn, parameters) {
    if (!/^\?(?:.*;)?(?:47|1047|1049)(?:;|$)/.test(parameters) || isOn === Boolean(this.other)) return;
    if (isOn) {
      this.other = { lines: this.lines, row: this.row, column: this.column, style: this.style };
      this.lines = this.blank(Screen.ROWS);
    } else {
      ({ lines: this.lines, row: this.row, column: this.column, style: this.style } = this.other);
      this.other = null;
      [this.top, this.bottom] = [0, Screen.ROWS - 1];
    }
  }

  erase(part) {
    if (part === 3) this.scrolled = [];
    else if (part === 2) this.lines = this.blank(Screen.ROWS);
    else {
      this.eraseLine(part);
      const [from, to] = part === 0 ? [this.row + 1, Screen.ROWS] : [0, this.row];
      for (let row = from; row < to; row++) this.lines[row] = [];
    }
  }

  eraseLine(part) {
    const line = this.lines[this.row];
    const to = part === 0 ? line.length : Math.min(this.column + 1, line.length);
    if (part === 2) line.length = 0;
    else if (part === 0) line.length = Math.min(line.length, this.column);
    else for (let i = 0; i < to; i++) line[i] = this.space();
    if (part !== 1) line.goesOn = false;
    if (part !== 1 && this.style.back !== undefined) {
      this.fill(this.row, Screen.COLUMNS);
      for (let i = part === 2 ? 0 : this.column; i < Screen.COLUMNS; i++) line[i] = this.space();
    }
  }

  colour(parameters) {
    const codes = parameters.replaceAll(":", ";").split(";").map(Number);
    let style = { ...this.style };
    for (let i = 0; i < codes.length; i++) {
      const code = codes[i];
      if (code === 0) style = {};
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
    this.style = Object.keys(style).length ? style : Screen.PLAIN;
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
    const all = this.other ? this.lines : [...this.scrolled, ...this.lines];
    let count = all.length;
    while (count && this.lengthOf(all[count - 1]) === 0) count--;
    for (let number = 0; number < count; number++) {
      const line = all[number];
      if (number && !all[number - 1].goesOn) page.append("\n");
      const length = line.goesOn ? line.length : this.lengthOf(line);
      for (let start = 0, end; start < length; start = end) {
        const style = line[start][1];
        for (end = start + 1; end < length && line[end][1] === style; ) end++;
        page.append(this.run(line.slice(start, end).map((cell) => cell[0]).join(""), style));
      }
    }
    this.element.replaceChildren(page);
    this.element.scrollTop = this.element.scrollHeight;
  }

  /* The cells of a line up to the last one that can be seen. */
  lengthOf(line) {
    let length = line.length;
    while (length && line[length - 1][0] === " " && line[length - 1][1] === Screen.PLAIN) length--;
    return length;
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
