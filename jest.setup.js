// A warning is an error, but for what libraries say of themselves.
const ignored = [
  // @jupyter/ydoc builds a cell before it is in a document.
  'Invalid access: Add Yjs type to a document before reading data.',
  '[yjs#509] Not same Y.Doc',
  // jsdom has no clipboard, and @jupyterlab/apputils looks for one when it is loaded.
  'Clipboard API not available'
];

for (const level of ['warn', 'error']) {
  const original = console[level];
  console[level] = (...args) => {
    const text = args.map(String).join(' ');
    if (!ignored.some(known => text.includes(known))) {
      original(...args);
      throw new Error(`console.${level}: ${text}`);
    }
  };
}
