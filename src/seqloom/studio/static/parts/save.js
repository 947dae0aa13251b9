// A view as a picture, or as one HTML file that opens offline.
const download = (name, url) => Object.assign(document.createElement("a"), { download: name, href: url }).click();

// What a canvas looks like is partly its own style, partly that of rules that speak of canvases.
const LOOKS = ["width", "height", "display", "max-width", "opacity", "object-fit", "image-rendering", "background-color", "border-radius"];

// A style sheet as it was written: read back from its rules, a browser leaves out shorthands that hold variables.
async function textOf(sheet) {
  try {
    const answer = await fetch(sheet.href);
    if (answer.ok) return await answer.text();
  } catch { /* the server was stopped: better than nothing */ }
  return [...sheet.cssRules].map((rule) => rule.cssText).join("\n");
}

async function copied(view) {
  const copy = view.cloneNode(true);
  const originals = [...view.querySelectorAll("canvas")];
  [...copy.querySelectorAll("canvas")].forEach((canvas, i) => {
    const picture = document.createElement("img");
    picture.src = originals[i].toDataURL();
    const looks = getComputedStyle(originals[i]);
    for (const name of LOOKS) picture.style.setProperty(name, looks.getPropertyValue(name));
    picture.alt = canvas.getAttribute("aria-label") ?? "";
    canvas.replaceWith(picture);
  });
  copy.querySelectorAll("[data-unsaved]").forEach((element) => element.remove());
  const fields = [...view.querySelectorAll("textarea")];
  [...copy.querySelectorAll("textarea")].forEach((element, i) => (element.textContent = fields[i].value));
  const styles = (await Promise.all([...document.styleSheets].filter((sheet) => !sheet.disabled).map(textOf))).join("\n");
  return { copy, styles };
}

export async function saveHtml(view, title) {
  const { copy, styles } = await copied(view);
  const made = document.implementation.createHTMLDocument(title);
  made.documentElement.lang = "en";
  const policy = made.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
  const charset = made.createElement("meta");
  charset.setAttribute("charset", "utf-8");
  made.head.prepend(charset, policy);
  made.body.append(made.adoptNode(copy));
  // written as text, since the page's own policy allows no style element; the styles are our own file
  const whole = made.documentElement.outerHTML.replace("</head>", () => `<style>${styles}</style></head>`);
  const url = URL.createObjectURL(new Blob([`<!DOCTYPE html>\n${whole}`], { type: "text/html" }));
  download(`${title}.html`, url);
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export async function savePng(view, title) {
  const { copy, styles } = await copied(view);
  const width = view.clientWidth;
  // without what is not saved it may be lower
  copy.style.cssText = `position: absolute; left: 0; top: 0; visibility: hidden; width: ${width}px; max-width: none`;
  document.body.append(copy);
  const height = copy.scrollHeight;
  copy.remove();
  copy.style.cssText = `width: ${width}px; max-width: none`;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("width", Math.max(width, innerWidth)); // what the style asks of the window holds here too
  svg.setAttribute("height", height);
  const inner = document.createElementNS("http://www.w3.org/2000/svg", "foreignObject");
  inner.setAttribute("width", "100%");
  inner.setAttribute("height", "100%");
  const body = document.createElement("body");
  const style = document.createElement("style");
  style.textContent = styles;
  body.append(style, copy);
  inner.append(body);
  svg.append(inner);
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  await picture.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.scale(2, 2);
  context.drawImage(picture, 0, 0);
  download(`${title}.png`, canvas.toDataURL("image/png"));
}
