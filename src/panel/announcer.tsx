import * as React from 'react';

import { ServerFrame } from '../api/frames';
import { announcement } from './announcements';
import { usePanel } from './context';
import { PanelController } from './controller';

/** Tells screen readers what happened. Nothing of it is seen. */
export function Announcer(): JSX.Element {
  const { controller, trans } = usePanel();
  const [text, setText] = React.useState('');
  React.useEffect(() => {
    const onFrame = (_: PanelController, frame: ServerFrame): void => {
      const { conversation } = controller.snapshot();
      const said = conversation && announcement(frame, conversation, trans);
      if (said) {
        setText(said);
      }
    };
    controller.liveFrame.connect(onFrame);
    return () => {
      controller.liveFrame.disconnect(onFrame);
    };
  }, [controller, trans]);
  return (
    <div className="jp-prime-VisuallyHidden" role="status" aria-live="polite">
      {text}
    </div>
  );
}
