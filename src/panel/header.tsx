import { TranslationBundle } from '@jupyterlab/translation';
import {
  addIcon,
  caretDownIcon,
  ellipsesIcon
} from '@jupyterlab/ui-components';
import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import * as React from 'react';

import { ISessionSummary } from '../api/rest';
import { attachmentLabels } from '../mentions/describe';
import { IConversation } from '../model/items';
import { chooseSession } from './attachSession';
import { usePanel } from './context';
import { fileSize } from './format';
import { popUp } from './menus';
import { IPanelState, isBusy } from './state';

/** Command of JupyterLab's settings editor, which other applications may lack. */
const OPEN_SETTINGS = 'settingeditor:open';

/** The panel's header: the session and its menus, the notebook and the kernel's state. */
export function Header(props: { state: IPanelState }): JSX.Element {
  const { state } = props;
  const { controller, commands, trans } = usePanel();
  const { notebook, sessionId } = state;
  const name = notebook?.split('/').pop() ?? '';
  const title = sessionId
    ? sessionTitle(state.conversation, trans)
    : notebook === null
      ? trans.__('Prime')
      : trans.__('New session');

  const openSessions = async (anchor: HTMLElement): Promise<void> => {
    const [sessions, lost] = await Promise.all([
      controller.sessions.list().catch(() => []),
      controller.sessions.withoutNotebook().catch(() => [])
    ]);
    if (controller.notebook !== notebook) {
      return;
    }
    popUp(anchor, [
      ...sessions.map(session => ({
        label:
          session.title ||
          (session.id === sessionId
            ? title
            : trans.__(
                'Session of %1',
                new Date(session.created).toLocaleString()
              )),
        isToggled: session.id === sessionId,
        run: () => {
          void controller.sessions.select(session.id);
        }
      })),
      ...(sessions.length > 0 ? [null] : []),
      {
        label: trans.__('New session'),
        isToggled: sessionId === null,
        run: () => {
          void controller.sessions.begin();
        }
      },
      ...(lost.length > 0
        ? [
            {
              label: trans.__('Attach a session to this notebook…'),
              run: () => {
                void attach(lost);
              }
            }
          ]
        : [])
    ]);
  };

  const attach = async (lost: readonly ISessionSummary[]): Promise<void> => {
    const session = await chooseSession(lost, name, trans);
    if (session) {
      await controller.sessions.attach(session.id);
    }
  };

  // The panel may show another session by the time that a dialog is answered.
  const rename = async (id: string): Promise<void> => {
    const result = await InputDialog.getText({
      title: trans.__('Rename session'),
      text: state.conversation?.title ?? '',
      okLabel: trans.__('Rename')
    });
    const value = result.value?.trim();
    if (result.button.accept && value) {
      await controller.sessions.rename(id, value);
    }
  };

  const remove = async (id: string): Promise<void> => {
    const result = await showDialog({
      title: trans.__('Delete session “%1”?', title),
      body: [
        isBusy(state)
          ? trans.__('The agent is still working and will be stopped.')
          : '',
        trans.__(
          'The conversation and the saved kernel state are deleted from disk. The notebook and its kernel stay as they are.'
        )
      ]
        .join(' ')
        .trim(),
      buttons: [
        Dialog.cancelButton(),
        Dialog.warnButton({ label: trans.__('Delete') })
      ]
    });
    if (result.button.accept) {
      await controller.sessions.delete(id);
    }
  };

  const saved = state.conversation?.snapshotsOn ?? null;
  const switchSaving = async (): Promise<void> => {
    if (!saved) {
      await controller.variables.setSaved(true);
      return;
    }
    const bytes = await controller.variables.savedBytes().catch(() => 0);
    const result = await showDialog({
      title: trans.__('Stop saving the variables of “%1”?', name),
      body: trans.__(
        'The kernel’s variables are no longer saved to disk, in any session of this notebook. What was saved so far (%1) is deleted; after a crash or a restart it cannot be restored.',
        fileSize(bytes)
      ),
      buttons: [
        Dialog.cancelButton(),
        Dialog.warnButton({ label: trans.__('Stop saving and delete') })
      ],
      defaultButton: 0
    });
    if (result.button.accept) {
      await controller.variables.setSaved(false);
    }
  };

  const openMenu = (anchor: HTMLElement): void => {
    const hasSession = !!sessionId;
    popUp(anchor, [
      {
        label: trans.__('Compact now'),
        isEnabled: hasSession,
        run: () => {
          void controller.compact();
        }
      },
      {
        label: trans.__('Restore variables'),
        isEnabled: hasSession && saved === true,
        run: () => {
          void controller.variables.restore();
        }
      },
      {
        label: trans.__('Save variables of this notebook'),
        isToggled: saved === true,
        isEnabled: hasSession && saved !== null,
        run: () => {
          void switchSaving();
        }
      },
      null,
      {
        label: trans.__('Rename session…'),
        isEnabled: hasSession,
        run: () => {
          void rename(sessionId!);
        }
      },
      {
        label: trans.__('Delete session…'),
        isEnabled: hasSession,
        run: () => {
          void remove(sessionId!);
        }
      },
      null,
      {
        label: trans.__('Connect a model…'),
        run: () => controller.showSheet('model')
      },
      {
        label: trans.__('Commands and keys'),
        run: () => controller.showSheet('help')
      },
      ...(commands.hasCommand(OPEN_SETTINGS)
        ? [
            {
              label: trans.__('Settings'),
              run: () => {
                void commands.execute(OPEN_SETTINGS, {
                  query: trans.__('Prime')
                });
              }
            }
          ]
        : [])
    ]);
  };

  return (
    <header className="jp-prime-Header">
      <div className="jp-prime-Header-names">
        <button
          type="button"
          className="jp-prime-Header-session"
          disabled={notebook === null}
          aria-haspopup="menu"
          aria-label={trans.__('Session: %1', title)}
          title={trans.__('Switch session')}
          onClick={event => {
            void openSessions(event.currentTarget);
          }}
        >
          <span className="jp-prime-Header-title">{title}</span>
          {notebook !== null && <caretDownIcon.react tag="span" />}
        </button>
        {notebook !== null && (
          <div className="jp-prime-Header-notebook" title={notebook}>
            <KernelDot state={state} />
            <span className="jp-prime-Header-name">{name}</span>
            {saved === false && (
              <span
                className="jp-prime-Header-off"
                title={trans.__(
                  'The variables of this notebook are not saved.'
                )}
              >
                {trans.__('variables not saved')}
              </span>
            )}
          </div>
        )}
      </div>
      <button
        type="button"
        className="jp-prime-IconButton"
        disabled={notebook === null}
        title={trans.__('New session')}
        aria-label={trans.__('New session')}
        onClick={() => {
          void controller.sessions.begin();
        }}
      >
        <addIcon.react tag="span" />
      </button>
      <button
        type="button"
        className="jp-prime-IconButton"
        aria-haspopup="menu"
        title={trans.__('More')}
        aria-label={trans.__('More')}
        onClick={event => openMenu(event.currentTarget)}
      >
        <ellipsesIcon.react tag="span" />
      </button>
    </header>
  );
}

/** Maximum length of a title that is taken from a message. */
const LONGEST_TITLE = 60;

/**
 * Return the title of a session, or the first line of its first message, or what is attached to a
 * message without text.
 */
function sessionTitle(
  conversation: IConversation | null,
  trans: TranslationBundle
): string {
  if (conversation?.title) {
    return conversation.title;
  }
  const first = conversation?.items.find(item => item.kind === 'user');
  const words =
    first && (first.text || attachmentLabels(first.attachments, trans));
  return words
    ? words.split('\n')[0].slice(0, LONGEST_TITLE)
    : trans.__('Untitled session');
}

/** A dot for the kernel's state, with the state as its label. */
function KernelDot(props: { state: IPanelState }): JSX.Element {
  const { trans } = usePanel();
  const { kernel, conversation } = props.state;
  const status = kernel?.status ?? conversation?.kernelState ?? 'none';
  const level = kernelLevel(status);
  const words = {
    idle: trans.__('idle'),
    busy: trans.__('busy'),
    starting: trans.__('starting'),
    dead: trans.__('not running'),
    none: trans.__('none')
  }[level];
  const label = kernel?.name
    ? trans.__('Kernel %1: %2', kernel.name, words)
    : trans.__('Kernel: %1', words);
  return (
    <span
      className="jp-prime-KernelDot"
      data-level={level}
      role="img"
      aria-label={label}
      title={label}
    />
  );
}

/** Map the statuses of JupyterLab's kernel connections to five levels. */
export function kernelLevel(
  status: string
): 'idle' | 'busy' | 'starting' | 'dead' | 'none' {
  switch (status) {
    case 'idle':
      return 'idle';
    case 'busy':
      return 'busy';
    case 'starting':
    case 'restarting':
    case 'autorestarting':
    case 'connecting':
    case 'initializing':
    case 'connected':
      return 'starting';
    case 'dead':
    case 'terminating':
    case 'disconnected':
      return 'dead';
    default:
      return 'none';
  }
}
