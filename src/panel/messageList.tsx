import { caretDownIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { Item } from '../model/items';
import { usePanel } from './context';
import { ItemBoundary } from './errorBoundary';
import { ItemView } from './items';

/** Number of items that are rendered at first, and that scrolling up adds. */
const PAGE = 40;

/** Distance from the end, in pixels, within which the list counts as scrolled to the end. */
const NEAR_END = 32;

/** Distance from the beginning, in pixels, within which earlier items are rendered. */
const NEAR_START = 400;

/**
 * The conversation. Only its newest items are rendered until the user scrolls up. The list follows
 * the end while text arrives, unless the user has scrolled away from it.
 */
export function MessageList(props: {
  items: readonly Item[];
  /** Content after the items: the current activity. */
  children?: React.ReactNode;
  /** A new value scrolls the list to its end. */
  resetKey: unknown;
}): JSX.Element {
  const { items } = props;
  const { trans } = usePanel();
  const scroller = React.useRef<HTMLDivElement>(null);
  const content = React.useRef<HTMLDivElement>(null);
  const atEnd = React.useRef(true);
  const [away, setAway] = React.useState(false);
  const [extra, setExtra] = React.useState(0);

  // Advance in steps, so that not every new item removes one at the top.
  const start = Math.max(
    0,
    Math.floor((items.length - PAGE) / (PAGE / 2)) * (PAGE / 2) - extra
  );

  const toEnd = React.useCallback(() => {
    const element = scroller.current!;
    element.scrollTop = element.scrollHeight;
  }, []);

  React.useLayoutEffect(() => {
    atEnd.current = true;
    setAway(false);
    setExtra(0);
    toEnd();
  }, [props.resetKey]);

  // Content grows for many reasons: text, loading figures, expanding cards.
  React.useEffect(() => {
    const observer = new ResizeObserver(() => {
      if (atEnd.current) {
        toEnd();
      }
    });
    observer.observe(content.current!);
    observer.observe(scroller.current!);
    return () => observer.disconnect();
  }, []);

  const lastTop = React.useRef(0);
  const onScroll = (): void => {
    const element = scroller.current!;
    const { scrollTop, scrollHeight, clientHeight } = element;
    const near = scrollHeight - scrollTop - clientHeight < NEAR_END;
    // Only scrolling up leaves the end: growing content does not change `scrollTop`.
    if (near) {
      atEnd.current = true;
      setExtra(0);
    } else if (scrollTop < lastTop.current) {
      atEnd.current = false;
    }
    lastTop.current = scrollTop;
    setAway(!atEnd.current);
    if (!atEnd.current && scrollTop < NEAR_START && start > 0) {
      // At 0 the browser's scroll anchoring would not keep the content in view.
      element.scrollTop = Math.max(1, scrollTop);
      setExtra(extra + PAGE);
    }
  };

  return (
    <div className="jp-prime-Messages">
      <div
        className="jp-prime-Messages-scroller"
        ref={scroller}
        onScroll={onScroll}
        role="log"
        aria-live="off"
        aria-label={trans.__('Conversation')}
        tabIndex={0}
      >
        <div className="jp-prime-Messages-content" ref={content}>
          {start > 0 && (
            <button
              type="button"
              className="jp-prime-Link jp-prime-Earlier"
              onClick={() => {
                atEnd.current = false;
                setExtra(extra + PAGE);
              }}
            >
              {trans.__('Show earlier messages')}
            </button>
          )}
          {items.slice(start).map(item => (
            <ItemBoundary key={item.key} item={item}>
              <ItemView item={item} />
            </ItemBoundary>
          ))}
          {props.children}
        </div>
      </div>
      {away && (
        <button
          type="button"
          className="jp-prime-Latest"
          onClick={() => {
            atEnd.current = true;
            toEnd();
          }}
        >
          <caretDownIcon.react tag="span" />
          {trans.__('Jump to latest')}
        </button>
      )}
    </div>
  );
}
