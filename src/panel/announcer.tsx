import * as React from 'react';

import { ServerFrame } from '../api/frames';
import { announcement } from './announcements';
import { usePanel } from './context';
import { PanelController } from './controller';

/** A visually hidden live region that announces events to screen readers. */
export function Announcer(): JSX.Element {
  const { controller, trans } = usePanel();
  // The count changes the key, so that a repeated text is announced again.
  const [said, setSaid] = React.useState({ text: '', count: 0 });
  React.useEffect(() => {
    const onFrame = (_: PanelController, frame: ServerFrame): void => {
      // A snapshot copies the items of a long session, so do not take one for every delta.
      if (frame.type !== 'record' && frame.type !== 'message_complete') {
        return;
      }
      const { conversation } = controller.snapshot();
      const text = conversation && announcement(frame, conversation, trans);
      if (text) {
        setSaid(({ count }) => ({ text, count: count + 1 }));
      }
    };
    controller.liveFrame.connect(onFrame);
    return () => {
      controller.liveFrame.disconnect(onFrame);
    };
  }, [controller, trans]);
  return (
    <div className="jp-prime-VisuallyHidden" role="status" aria-live="polite">
      <span key={said.count}>{said.text}</span>
    </div>
  );
}
