// A view as a picture, or as one HTML file that opens offline.
const download = (name, url) => Object.assign(document.createElement("a"), { download: name, href: url }).click();

async function copied(view) {
  const copy = view.cloneNode(true);
  const originals = [...view.querySelectorAll("canvas")];
  [...copy.querySelectorAll("canvas")].forEach((canvas, i) => {
    const picture = document.createElement("img");
    picture.src = originals[i].toDataURL();
    picture.className = canvas.className;
    picture.alt = canvas.getAttribute("aria-label") ?? "";
    canvas.replaceWith(picture);
  });
  copy.querySelectorAll("[data-unsaved]").forEach((element) => element.remove());
  const fields = [...view.querySelectorAll("textarea")];
  [...copy.querySelectorAll("textarea")].forEach((element, i) => (element.textContent = fields[i].value));
  const styles = [...document.styleSheets].filter((sheet) => !sheet.disabled).map((sheet) => [...sheet.cssRules].map((rule) => rule.cssText).join("\n")).join("\n");
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
  const [width, height] = [view.scrollWidth, view.scrollHeight];
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("width", width);
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
