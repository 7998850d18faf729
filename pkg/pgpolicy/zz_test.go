package pgpolicy
import ("testing";"os";"os/exec";"fmt";"strings";"strconv")
func zz() { n:=os.Getenv("ZZ"); if n=="" {return}; i,_:=strconv.Atoi(n); fr,_:=strconv.Atoi(os.Getenv("ZF")); c:=crashShapes[i]; k:=(MaxChars-len(c.before)-len(c.middle)-len(c.after))/(len(c.open)+len(c.shut))*fr/100
  os.Exit(onASmallStack(c.before+strings.Repeat(c.open,k)+c.middle+strings.Repeat(c.shut,k)+c.after)) }
func TestZZ(t *testing.T){
 for i,c:=range crashShapes { for _,fr:=range []string{"49","75","99","100"} {
  var out []byte; var err error
  for { cmd:=exec.Command("/proc/self/exe"); cmd.Env=append(os.Environ(),"ZZ="+strconv.Itoa(i),"ZF="+fr)
  out,err=cmd.CombinedOutput(); if cmd.ProcessState.ExitCode()!=notFirst {break} }
  if err!=nil { at:=strings.Index(string(out),"parser._Cfunc"); if at<0{at=0}; fmt.Printf("%s %s%% %v %.60s\n",c.name,fr,err,string(out)[at:]) } } }
}
