// The form in the frame. It sends the card to its own origin and tells the page the token only.
'use strict'

const texts = {
  en: { number: 'Card number', expiry: 'Expiration date', cvc: 'Security code', incomplete: 'Your card details are incomplete.' },
  de: { number: 'Kartennummer', expiry: 'Ablaufdatum', cvc: 'Prüfnummer', incomplete: 'Ihre Kartendaten sind unvollständig.' },
  fr: { number: 'Numéro de carte', expiry: 'Date d’expiration', cvc: 'Code de sécurité', incomplete: 'Les données de votre carte sont incomplètes.' },
  es: { number: 'Número de tarjeta', expiry: 'Fecha de caducidad', cvc: 'Código de seguridad', incomplete: 'Los datos de la tarjeta están incompletos.' },
}
const field = (id) => document.getElementById(id)
const fields = ['number', 'expiry', 'cvc'].map(field)
const digits = (id) => field(id).value.replace(/\D/g, '')
let text = texts.en
let port

const say = (type, event) => port?.postMessage({ type, event })
const complete = () => digits('number').length >= 12 && digits('expiry').length === 4 && digits('cvc').length >= 3
const empty = () => fields.every((f) => f.value === '')

const show = (message) => {
  field('fault').textContent = message ?? ''
  for (const f of fields) f.setAttribute('aria-invalid', String(Boolean(message)))
  port?.postMessage({ type: 'height', height: document.documentElement.scrollHeight })
}

const wear = (appearance = {}) => {
  const names = { colorText: '--text', colorBackground: '--background', colorPrimary: '--primary', colorDanger: '--danger' }
  for (const [name, property] of Object.entries(names)) {
    const value = appearance.variables?.[name]
    if (value) document.documentElement.style.setProperty(property, value)
  }
  document.documentElement.style.colorScheme = appearance.theme === 'night' ? 'dark' : ''
}

const validate = () => {
  if (complete()) {
    show()
    return undefined
  }
  show(text.incomplete)
  return { type: 'validation_error', code: 'incomplete_number', message: text.incomplete }
}

const token = async () => {
  const expiry = digits('expiry')
  const card = {
    number: digits('number'), cvc: digits('cvc'),
    exp_month: Number(expiry.slice(0, 2)), exp_year: 2000 + Number(expiry.slice(2)),
  }
  let answer
  try {
    answer = await (await fetch('/tokens', { method: 'POST', body: JSON.stringify(card) })).json()
  } catch {
    return { error: { type: 'api_connection_error', message: 'The card could not be sent.' } }
  }
  if (answer.error) {
    show(answer.error.message)
    return { error: answer.error }
  }
  return { confirmationToken: answer }
}

const hear = async ({ data }) => {
  if (data.type === 'focus') field('number').focus()
  if (data.type === 'blur') document.activeElement?.blur()
  if (data.type === 'update') wear(data.options?.appearance)
  if (data.type === 'validate') port.postMessage({ type: 'answer', number: data.number, answer: validate() })
  if (data.type === 'token') port.postMessage({ type: 'answer', number: data.number, answer: await token() })
}

window.addEventListener('message', (event) => {
  if (event.source !== window.parent || event.data?.type !== 'connect' || port) return
  const language = (event.data.locale ?? 'en').slice(0, 2)
  text = texts[language] ?? texts.en
  document.documentElement.lang = texts[language] ? language : 'en'
  for (const label of document.querySelectorAll('[data-text]')) label.textContent = text[label.dataset.text]
  wear(event.data.appearance)
  port = event.ports[0]
  port.onmessage = hear
  show()
  say('ready', {})
})

field('number').addEventListener('input', () => {
  field('number').value = digits('number').slice(0, 19).replace(/(\d{4})(?=\d)/g, '$1 ')
})
field('expiry').addEventListener('input', (event) => {
  const typed = digits('expiry').slice(0, 4)
  const goesBack = event.inputType?.startsWith('delete')
  field('expiry').value = typed.length > 2 || (typed.length === 2 && !goesBack) ? `${typed.slice(0, 2)} / ${typed.slice(2)}` : typed
})
for (const f of fields) {
  f.addEventListener('input', () => say('change', { complete: complete(), empty: empty(), value: { type: 'card' } }))
  f.addEventListener('focus', () => say('focus', {}))
  f.addEventListener('blur', () => say('blur', {}))
}
field('card').addEventListener('submit', (event) => event.preventDefault())
