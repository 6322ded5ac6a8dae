import { Clipboard } from '@jupyterlab/apputils';
import { checkIcon, copyIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { usePanel } from './context';

/** Code with JupyterLab's syntax highlighting. */
export function CodeView(props: {
  code: string;
  /** Language name as the editors use it; by default the language of the notebook. */
  language?: string;
}): JSX.Element {
  const { languages, notebookView, trans } = usePanel();
  const host = React.useRef<HTMLElement>(null);
  const language = props.language ?? notebookView.language();
  React.useLayoutEffect(() => {
    const element = host.current!;
    if (element.textContent === '') {
      element.textContent = props.code;
    }
    if (!languages) {
      element.textContent = props.code;
      return;
    }
    let current = true;
    const highlighted = document.createElement('code');
    languages
      .highlight(props.code, languages.findBest(language, true), highlighted)
      .then(() => {
        if (current) {
          element.replaceChildren(...highlighted.childNodes);
        }
      })
      .catch(reason => {
        console.warn(`Prime: ${language} code is not highlighted.`, reason);
        if (current) {
          element.textContent = props.code;
        }
      });
    return () => {
      current = false;
    };
  }, [languages, language, props.code]);
  return (
    <div className="jp-prime-Code">
      <pre tabIndex={0} aria-label={trans.__('Code')}>
        <code className="cm-s-jupyter" ref={host} />
      </pre>
      <div className="jp-prime-CodeActions">
        <CopyButton label={trans.__('Copy')} text={() => props.code} />
      </div>
    </div>
  );
}

/** How long a copy button shows that the text was copied, in milliseconds. */
export const COPIED_MS = 1500;

export function CopyButton(props: {
  label: string;
  text: () => string;
}): JSX.Element {
  const { trans } = usePanel();
  const [copied, setCopied] = React.useState(false);
  React.useEffect(() => {
    if (copied) {
      const timer = window.setTimeout(() => setCopied(false), COPIED_MS);
      return () => window.clearTimeout(timer);
    }
    return undefined;
  }, [copied]);
  const label = copied ? trans.__('Copied') : props.label;
  const Icon = copied ? checkIcon : copyIcon;
  return (
    <button
      type="button"
      className="jp-prime-IconButton"
      title={label}
      aria-label={label}
      onClick={() => {
        // `navigator.clipboard` is not available over plain HTTP.
        Clipboard.copyToSystem(props.text());
        setCopied(true);
      }}
    >
      <Icon.react tag="span" />
    </button>
  );
}
