export default function A() { return null; }
