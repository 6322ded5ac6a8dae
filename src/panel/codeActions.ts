import { Clipboard } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import {
  addBelowIcon,
  checkIcon,
  copyIcon,
  LabIcon
} from '@jupyterlab/ui-components';

import { COPIED_MS } from './codeView';
import { INotebookView } from './context';

/** Add buttons to each code block of rendered Markdown: copy, and insert as a cell. */
export function addCodeActions(
  rendered: HTMLElement,
  notebookView: INotebookView,
  trans: TranslationBundle
): void {
  rendered.querySelectorAll('pre').forEach(pre => {
    const code = (pre.textContent ?? '').replace(/\n$/, '');
    const frame = document.createElement('div');
    frame.className = 'jp-prime-Code';
    pre.replaceWith(frame);
    const actions = document.createElement('div');
    actions.className = 'jp-prime-CodeActions';
    const copy = button(copyIcon, trans.__('Copy'), () => {
      Clipboard.copyToSystem(code);
      show(copy, checkIcon, trans.__('Copied'));
      window.setTimeout(
        () => show(copy, copyIcon, trans.__('Copy')),
        COPIED_MS
      );
    });
    actions.append(copy);
    // A block without a language is usually output or prose.
    if (pre.querySelector('code[class*="language-"]')) {
      actions.append(
        button(addBelowIcon, trans.__('Insert as a cell below'), () => {
          notebookView.insertCell(code);
        })
      );
    }
    frame.append(pre, actions);
  });
}

function button(
  icon: LabIcon,
  label: string,
  onClick: () => void
): HTMLButtonElement {
  const element = document.createElement('button');
  element.type = 'button';
  element.className = 'jp-prime-IconButton';
  element.addEventListener('click', onClick);
  show(element, icon, label);
  return element;
}

function show(button: HTMLButtonElement, icon: LabIcon, label: string): void {
  button.title = label;
  button.setAttribute('aria-label', label);
  button.replaceChildren(icon.element({ tag: 'span' }));
}
