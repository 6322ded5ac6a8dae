import { MimeModel } from '@jupyterlab/rendermime';
import { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import * as React from 'react';

import { MarkdownSplitter } from '../model/markdown';
import { addCodeActions } from './codeActions';
import { usePanel } from './context';
import { nameTasks } from './taskNames';
import { useWidget } from './mimeHost';
import { frameTables, WideContent } from './wideContent';

const MIME_TYPE = 'text/markdown';

/** Minimum pause between two renderings of growing text, in milliseconds. */
const SHORTEST_PAUSE = 60;

/** Markdown in JupyterLab's renderer. While it streams, only the last piece is re-rendered. */
export function MarkdownView(props: {
  text: string;
  streaming?: boolean;
}): JSX.Element {
  const splitter = React.useRef(new MarkdownSplitter());
  const streamed = React.useRef(false);
  streamed.current = streamed.current || !!props.streaming;
  if (!streamed.current) {
    return <MarkdownPiece text={props.text} />;
  }
  const { finished, tail } = splitter.current.split(props.text);
  return (
    <>
      {[...finished, tail].map((piece, index) => (
        <MarkdownPiece key={index} text={piece} />
      ))}
    </>
  );
}

const MarkdownPiece = React.memo((props: { text: string }): JSX.Element => {
  const { renderers, notebookView, trans } = usePanel();
  const rendermime = renderers.current;
  const [host, renderer] = useWidget<IRenderMime.IRenderer>(
    () => rendermime.createRenderer(MIME_TYPE),
    [rendermime]
  );
  const rendering = React.useRef<Rendering | null>(null);
  React.useEffect(() => {
    const widget = renderer.current!;
    const current = new Rendering(widget, () => {
      addCodeActions(widget.node, notebookView, trans);
      frameTables(widget.node);
      nameTasks(widget.node);
    });
    rendering.current = current;
    const wide = new WideContent(widget.node, trans);
    return () => {
      current.stop();
      wide.dispose();
    };
  }, [rendermime]);
  React.useEffect(() => {
    rendering.current?.show(props.text);
  }, [rendermime, props.text]);
  return <div className="jp-prime-Markdown" ref={host} />;
});

/**
 * Renders the latest text, one rendering at a time. If text arrives faster than it can be rendered,
 * intermediate versions are skipped, so that long answers do not lag behind.
 */
class Rendering {
  constructor(
    private readonly _renderer: IRenderMime.IRenderer,
    private readonly _rendered: () => void
  ) {}

  show(text: string): void {
    this._next = text;
    if (!this._busy) {
      void this._run();
    }
  }

  stop(): void {
    this._stopped = true;
  }

  private async _run(): Promise<void> {
    this._busy = true;
    while (this._next !== null && !this._stopped) {
      const text = this._next;
      this._next = null;
      const start = performance.now();
      try {
        await this._renderer.renderModel(
          new MimeModel({ data: { [MIME_TYPE]: text }, trusted: false })
        );
        this._rendered();
      } catch (reason) {
        console.warn('Prime: Markdown is shown as text.', reason);
        this._renderer.node.textContent = text;
      }
      const took = performance.now() - start;
      await new Promise(resolve =>
        window.setTimeout(resolve, Math.max(SHORTEST_PAUSE, took))
      );
    }
    this._busy = false;
  }

  private _next: string | null = null;
  private _busy = false;
  private _stopped = false;
}
